"""Compiles Triton in a worker process for GPUs that need not be there, and reads resources from the machine code."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from importlib.util import find_spec

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.errors import CompileError, ToolMissing
from portakern.tools.workers import LATE, WorkerFault, WorkerPool

from . import machine_code
from .assembler import named
from .faces import log_of
from .occupancy import occupancy
from .worker import CompiledSource, KernelBinary, compile_source, versions

_INSIDE = "PORTAKERN_TRITON_WORKER"
ENVIRONMENT = {
    "TRITON_DEFAULT_FP_FUSION": "1",
    "TRITON_DISABLE_LINE_INFO": "1",
    "TRITON_INTERPRET": "0",
    _INSIDE: "1",
}
"""Fusion of multiply and add is pinned because Triton 3.10 changes its default; line information would put a file name
into the binary. The last one marks a worker process, which compiles by itself instead of starting another."""

_TIMEOUT_S = 180.0
_pools = threading.local()


def _pool() -> WorkerPool:
    """One worker for each thread that compiles; it stays up, since importing Triton and torch takes seconds."""
    if not hasattr(_pools, "pool"):
        _pools.pool = WorkerPool(1, env=ENVIRONMENT, preload=("torch", "triton", __name__))
    return _pools.pool


def tools() -> Availability:
    missing = [name for name in ("triton", "torch") if find_spec(name) is None]
    if missing:
        return Availability(False, f"{' and '.join(missing)} missing: pip install 'portakern[triton]'")
    return Availability(True, versions())


class TritonToolchain:
    """Any NVIDIA and AMD target on any machine with the Triton wheel."""

    def available(self, target: Target) -> Availability:
        return tools()

    def fingerprint(self, target: Target) -> str:
        assembled = f" {named()}" if target.device.vendor == "NVIDIA" else ""
        return f"{versions()} {target.device.isa}{assembled} fp-fusion"

    def compile(self, source: Source) -> CompiledBinary:
        """Raises :class:`CompileError` with Triton's message, or :class:`ToolMissing`."""
        found = tools()
        if not found:
            raise ToolMissing(f"cannot compile for {source.target}: {found.detail}")
        if os.environ.get(_INSIDE) == "1":
            return describe(source, compile_source(source))
        worker = f"{__package__}.worker:compile_source"
        try:
            compiled: CompiledSource = _pool().call(worker, source, timeout_s=_TIMEOUT_S)
        except WorkerFault as fault:
            hint = fault.hint or (LATE if fault.kind == "timeout" else "")
            raise CompileError(f"compiling {source.operator} for {source.target} with {versions()} {fault.what}",
                               hint=hint, kind=f"compile-{fault.kind}", log=fault.log) from fault  # fmt: skip
        return describe(source, compiled)


def describe(source: Source, compiled: CompiledSource) -> CompiledBinary:
    """The binary of a source: the one kernel's machine code, a zip of several, or nothing where nothing is launched
    because every output is empty."""
    kernels = compiled.kernels
    code = "cubin" if source.target.device.vendor == "NVIDIA" else "hsaco"
    if not kernels:
        return CompiledBinary(code, b"", compiled.tool, log="every output is empty: nothing is launched")
    assembly = "\n".join(k.assembly for k in kernels)
    resources = tuple(resources_of(source, k) for k in kernels)
    log = "\n".join([*(f"{k.name}({k.signature})" for k in kernels), log_of(compiled.digests)])
    if len(kernels) == 1:
        return CompiledBinary(code, kernels[0].data, compiled.tool, resources, assembly, log)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for number, k in enumerate(kernels):
            out.writestr(zipfile.ZipInfo(f"{number}-{k.name}.{code}"), k.data)
    return CompiledBinary(f"{code}-zip", archive.getvalue(), compiled.tool, resources, assembly, log)


def resources_of(source: Source, kernel: KernelBinary) -> Resources:
    device = source.target.device
    usage = machine_code.read_cubin(kernel.data) if kernel.format == "cubin" else machine_code.read_hsaco(kernel.data)
    shared = kernel.shared_bytes + usage.static_shared_bytes
    share, limiter = occupancy(device, kernel.warps, usage.registers, shared)
    where = "cubin .nv.info" if kernel.format == "cubin" else "code object metadata"
    extra = [("warps", kernel.warps)]
    if kernel.format == "hsaco":
        extra.append(("agprs", usage.accumulation_registers))
    return Resources(kernel.name, usage.registers, usage.spills, usage.scratch_bytes, shared, usage.code_bytes, share,
                     limiter, f"{where}; shared memory from Triton's launch metadata", tuple(extra))  # fmt: skip
