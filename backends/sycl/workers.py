"""One worker process for this backend's compilers, started when first needed.

Compilers run outside of this process: the SYCL one ends its process on some inputs.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

from portakern.tools.worker_main import find_function
from portakern.tools.workers import WorkerPool

ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
"""Keeps the threads of OpenMP runtimes, which may live in the same process, from spinning."""

INSIDE = "PORTAKERN_SYCL_WORKER"
"""Set where compiling in this process is meant: it is a worker, and a crash takes nothing else down."""

APART = "PORTAKERN_KERNEL_PROCESS"
"""Set by the process of a stranger's kernel, which is that kernel's alone: a crash is its own."""

_lock = threading.Lock()
_pool: WorkerPool | None = None


def call(function: str, *args: Any, timeout_s: float) -> Any:
    """Run ``"module:function"`` in the worker; raises what it raised, or a worker fault."""
    global _pool
    if os.environ.get(INSIDE) == "1" or os.environ.get(APART) == "1":
        return find_function(function)(*args)
    with _lock:
        if _pool is None:
            _pool = WorkerPool(1, env=ENVIRONMENT)
            atexit.register(_pool.close)
        return _pool.call(function, *args, timeout_s=timeout_s)
