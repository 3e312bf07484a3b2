"""Compiles SYCL at run time: to machine code of this machine's CPU, or to SPIR-V and from there to an Intel GPU's."""

from __future__ import annotations

import shutil

from portakern.backend import Availability, CompiledBinary, Resources, Source, Target
from portakern.emit.clike import inline_headers
from portakern.errors import ToolMissing

from ..opencl import binaries, features
from ..opencl.toolchain import cpu_model
from ..workers import call
from . import gpu_compiler, library

_TIMEOUT_S = 300.0


class SyclToolchain:
    def available(self, target: Target) -> Availability:
        reason = library.unavailable()
        if reason is not None:
            return Availability(False, reason)
        compiler = library.host_compiler() or [""]
        detail = f"intel-sycl-rt {library.runtime_version()} (interface built by {compiler[0]})"
        if target.device.kind == "gpu":
            ocloc = gpu_compiler.ocloc()
            detail += f", {ocloc}" if ocloc else f"; SPIR-V only, since ocloc is not installed: {gpu_compiler.INSTALL}"
        return Availability(True, detail)

    def fingerprint(self, target: Target) -> str:
        reason = library.unavailable()
        version = library.runtime_version() if reason is None else reason
        if target.device.kind == "gpu":
            ocloc = gpu_compiler.ocloc()
            below = f"{gpu_compiler.version(ocloc) if ocloc else 'no ocloc'} {shutil.which('spirv-val')}"
        else:
            below = f"headed binaries {cpu_model()}"
        return f"sycl rtc {version} {' '.join(library.ALWAYS)} {below}"

    def helpers(self, binary: CompiledBinary) -> tuple[str, ...]:
        return binaries.helpers(binary.data)

    def compile(self, source: Source) -> CompiledBinary:
        reason = library.unavailable()
        if reason is not None:
            raise ToolMissing(f"{source.operator} cannot be compiled: {reason}", hint=library.INSTALL)
        return self.for_gpu(source) if source.target.device.kind == "gpu" else self.for_cpu(source)

    def for_cpu(self, source: Source) -> CompiledBinary:
        text = inline_headers(source.text, source.headers)
        kernels = tuple(dict.fromkeys(x.kernel for x in source.launches))
        options = features.named(text)
        built = call("portakern.backends.sycl.sycl.jobs:build_cpu", text, kernels, options, timeout_s=_TIMEOUT_S)
        resources = tuple(
            Resources(kernel=name, scratch_bytes=facts["private"], shared_bytes=facts["local"],
                      source="clGetKernelWorkGroupInfo", extra=(("preferred_work_group_multiple", facts["multiple"]),))
            for name, facts in built["kernels"].items()
        )  # fmt: skip
        data = binaries.pack(built["device"], built["data"])
        return CompiledBinary(binaries.FORMAT, data, built["device"], resources, log=built["log"])

    def for_gpu(self, source: Source) -> CompiledBinary:
        tool = f"intel-sycl-rt {library.runtime_version()}"
        if not source.launches:
            return CompiledBinary("zebin", b"", tool, log="every array is empty: there is nothing to run")
        text = inline_headers(source.text, source.headers)
        spirv, log = call("portakern.backends.sycl.sycl.jobs:to_spirv", text, (), timeout_s=_TIMEOUT_S)
        return gpu_compiler.compile_spirv(source, spirv, tool, log)
