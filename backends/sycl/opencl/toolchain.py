"""Compiles OpenCL C for this machine's CPU device in a worker process."""

from __future__ import annotations

import importlib.util
from importlib.metadata import PackageNotFoundError, version

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.errors import CompileError

from ..workers import call
from . import binaries, features
from .platforms import INSTALL, intel_library, system_icds

OPTIONS = ("-cl-std=CL1.2",)
_JOB = "portakern.backends.sycl.opencl.jobs:build"
_TIMEOUT_S = 120.0


class OpenCLToolchain:
    """The driver's own compiler; its program binary is machine code for the CPU."""

    def available(self, target: Target) -> Availability:
        if importlib.util.find_spec("pyopencl") is None:
            return Availability(False, f"pyopencl is not installed: {INSTALL}")
        if intel_library() is not None:
            return Availability(True, f"pyopencl {version('pyopencl')}, Intel CPU runtime {version('intel-opencl-rt')}")
        systems = [name for name, library in system_icds().items() if "pocl" in library]
        if systems:
            return Availability(True, f"pyopencl {version('pyopencl')}, {systems[0]} of this system")
        return Availability(False, f"no OpenCL CPU driver was found: {INSTALL}")

    def fingerprint(self, target: Target) -> str:
        parts = [f"options {' '.join(OPTIONS)}", "headed binaries"]
        for package in ("pyopencl", "intel-opencl-rt"):
            try:
                parts.append(f"{package} {version(package)}")
            except PackageNotFoundError:
                parts.append(f"{package} -")
        parts += sorted(system_icds())
        return "opencl " + ", ".join([*parts, cpu_model()])

    def helpers(self, binary: CompiledBinary) -> tuple[str, ...]:
        return binaries.helpers(binary.data)

    def compile(self, source: Source) -> CompiledBinary:
        if not self.available(source.target):
            raise CompileError(self.available(source.target).detail, hint=INSTALL, kind="tool-missing")
        options = (*OPTIONS, *features.options(source.text))
        built = call(_JOB, source.text, tuple(x.kernel for x in source.launches), options, timeout_s=_TIMEOUT_S)
        resources = tuple(
            Resources(
                kernel=name, scratch_bytes=facts["private"], shared_bytes=facts["local"], source="clGetKernelWorkGroupInfo",
                extra=(("preferred_work_group_multiple", facts["multiple"]), ("max_work_group", facts["work_group"])),
            )
            for name, facts in built["kernels"].items()
        )
        data = binaries.pack(built["device"], built["data"])
        return CompiledBinary(binaries.FORMAT, data, built["device"], resources, log=built["log"])


def cpu_model() -> str:
    """The CPU and what it can do: a program binary is for one kind only."""
    try:
        with open("/proc/cpuinfo") as info:
            lines = [x for x in info.read(8192).splitlines() if x.startswith(("model name", "flags"))][:2]
    except OSError:
        import platform

        lines = [platform.processor()]
    import hashlib

    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]
