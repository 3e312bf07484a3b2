"""libtpu as a compiler: in this process where it is a worker for TPUs, else in a child that outlives its crashes."""

from __future__ import annotations

import os
import threading

from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.errors import CompileError, ToolMissing
from portakern.tools.workers import WorkerFault, WorkerPool

from ..trace.environment import ENVIRONMENT, HINT, TOPOLOGIES, WORKER, package_version, tool_name

TIMEOUT_S = 240.0


class LibtpuToolchain:
    """Ahead-of-time compilation for five generations of TPU on any x86-64 Linux machine."""

    environment = ENVIRONMENT

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None
        self._lock = threading.Lock()

    def available(self, target: Target) -> Availability:
        missing = [name for name in ("jax", "libtpu") if package_version(name) is None]
        if missing:
            return Availability(False, f"{' and '.join(missing)} not installed: {HINT}")
        return Availability(True, tool_name())

    def fingerprint(self, target: Target) -> str:
        return f"{tool_name()}, ahead of time for {TOPOLOGIES[target.device.isa]}, row-major layouts"

    def compile(self, source: Source) -> CompiledBinary:
        """Raises :class:`CompileError` (kinds ``compile-...``, see :mod:`.diagnose`) or :class:`ToolMissing`."""
        found = self.available(source.target)
        if not found:
            raise ToolMissing(f"{source.target} needs libtpu: {found.detail}", hint=HINT)
        if os.environ.get(WORKER):
            from .worker import compile_source

            return compile_source(source)
        with self._lock:
            return self._compile_in_child(source)

    def _compile_in_child(self, source: Source) -> CompiledBinary:
        """Once more where the child died by a signal: libtpu and jax crash now and then where a second call succeeds."""
        if self._pool is None:
            self._pool = WorkerPool(1, env=ENVIRONMENT)
        for more in (True, False):
            try:
                return self._pool.call(f"{__package__}.worker:compile_source", source, timeout_s=TIMEOUT_S)
            except WorkerFault as fault:
                if not (more and fault.signal):
                    raise _lost(source, fault) from None
        raise AssertionError("both calls return or raise")

    def close(self) -> None:
        """End the child process."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None


def _lost(source: Source, fault: WorkerFault) -> CompileError:
    """What became of a compiler that gave no answer."""
    what = f"{source.operator} for {source.target.device.name}"
    if fault.kind == "timeout":
        return CompileError(f"{what}: the compiler was not done within {TIMEOUT_S:g} s",
                            "smaller blocks, and jax.lax.fori_loop where Python's loops are unrolled",
                            kind="compile-timeout", log=fault.log)  # fmt: skip
    last = next((line for line in reversed(fault.log.splitlines()) if "Check fail" in line or line.startswith("F")), "")
    return CompileError(f"{what}: the compiler died ({fault.message}){': ' + last[:300] if last else ''}",
                        "the log has its last words", kind=f"compile-{fault.kind}", log=fault.log)  # fmt: skip
