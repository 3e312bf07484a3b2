"""Compiles numba texts in a worker process; the binary holds the machine code and loads without compiling again."""

from __future__ import annotations

import importlib.metadata
import os
import threading
from importlib.util import find_spec

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.errors import CompileError, ToolMissing
from portakern.tools.workers import LATE, WorkerFault, WorkerPool

from ..host import processor_name
from .helpers import helpers_of

_INSIDE = "PORTAKERN_NUMBA_WORKER"
ENVIRONMENT = {"NUMBA_THREADING_LAYER": "omp", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", _INSIDE: "1"}
"""One threading layer everywhere, threads that do not spin when idle; the last one marks a worker process, which compiles
by itself instead of starting another."""

_TIMEOUT_S = 180.0
_pools = threading.local()


def _pool() -> WorkerPool:
    if not hasattr(_pools, "pool"):
        _pools.pool = WorkerPool(1, env=ENVIRONMENT, preload=("numba", __name__))
    return _pools.pool


def tools() -> Availability:
    if find_spec("numba") is None:
        return Availability(False, "numba missing: pip install numba")
    return Availability(True, f"numba {importlib.metadata.version('numba')}")


def compile_source(source: Source) -> CompiledBinary:
    """Compile in this process, which should be a worker."""
    from .module import compile_kernels, pack

    kernels = compile_kernels(source)
    resources = tuple(Resources(k.name, code_bytes=k.code_bytes, source="LLVM object, executable sections") for k in kernels)
    log = "\n".join(f"{k.name}{k.signature}" for k in kernels)
    return CompiledBinary("numba-object", pack(kernels), tools().detail, resources, "\n".join(k.assembly for k in kernels), log)


class NumbaToolchain:
    """The processor of this machine."""

    def available(self, target: Target) -> Availability:
        return tools()

    def fingerprint(self, target: Target) -> str:
        return f"{tools().detail} llvmlite {importlib.metadata.version('llvmlite')} {processor_name()}"

    def helpers(self, binary: CompiledBinary) -> tuple[str, ...]:
        return helpers_of(binary.assembly or "")

    def compile(self, source: Source) -> CompiledBinary:
        """Raises :class:`CompileError` with numba's message, or :class:`ToolMissing`."""
        found = tools()
        if not found:
            raise ToolMissing(f"cannot compile for {source.target}: {found.detail}")
        if os.environ.get(_INSIDE) == "1":
            return compile_source(source)
        try:
            return _pool().call(f"{__name__}:compile_source", source, timeout_s=_TIMEOUT_S)
        except WorkerFault as fault:
            hint = fault.hint or (LATE if fault.kind == "timeout" else "")
            raise CompileError(f"compiling {source.operator} for {source.target} with {found.detail} {fault.what}",
                               hint=hint, kind=f"compile-{fault.kind}", log=fault.log) from fault  # fmt: skip
