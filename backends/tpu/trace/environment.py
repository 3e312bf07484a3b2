"""What the worker processes for TPUs need: libtpu without a TPU, and jax on the CPU."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "tpu7x": "tpu7x:2x2x1"}
"""The topology whose first device is compiled for."""

WORKER = "PORTAKERN_TPU_WORKER"
"""Set where compiling in this process is meant: a crash takes a worker down and nothing else."""

_UNFUSED = "--xla_cpu_max_isa=AVX" if platform.machine().lower() in ("x86_64", "amd64") else ""
"""XLA lets LLVM fuse products with sums on CPUs, and recomputes products where it fuses loops: a maximum of products and the
same products less that maximum would be rounded apart.  It has no other switch than a processor without the instruction; on
others than x86 it stays."""

ENVIRONMENT = {
    "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {_UNFUSED}".strip(),
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TPU_LOG_DIR": "disabled",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    WORKER: "1",
}

HINT = "pip install 'portakern[tpu]' (jax and libtpu)"


def package_version(name: str) -> str | None:
    """The installed version of a package, found without importing it."""
    try:
        return version(name) if find_spec(name) is not None else None
    except PackageNotFoundError:
        return None


@cache
def tool_name() -> str:
    """The compiler with versions: ``libtpu 0.0.51 (jax 0.10.2)``."""
    return f"libtpu {package_version('libtpu')} (jax {package_version('jax')})"
