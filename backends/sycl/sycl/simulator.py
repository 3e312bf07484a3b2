"""Runs kernels written for an Intel GPU on this machine's CPU: the same source, compiled for another SYCL device.

SYCL's sub-groups of 16, local memory and barriers mean the same there.  Only the systolic array's instruction is missing;
the header then forms its products one by one (``PK_WITHOUT_DPAS``).  So the source is executed, not the machine code.
"""

from __future__ import annotations

from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.emit.clike import inline_headers

from ..opencl import binaries
from ..workers import call
from . import library
from .runtime import SyclExecutable
from .toolchain import SyclToolchain

OPTIONS = ("-DPK_WITHOUT_DPAS",)
_TIMEOUT_S = 300.0


class SyclOnCpu:
    evidence = "interpreted"

    def available(self, target: Target) -> Availability:
        if target.device.kind != "gpu":
            return Availability(False, "the kernels run on the CPU itself")
        return SyclToolchain().available(target)

    def method(self, target: Target) -> str:
        return (f"the source compiled for the CPU device of intel-sycl-rt {library.runtime_version()}, sub-groups of 16, "
                "products of the systolic array formed one by one")

    def load(self, source: Source, binary: CompiledBinary | None) -> SyclExecutable:
        text = inline_headers(source.text, source.headers)
        kernels = tuple(dict.fromkeys(x.kernel for x in source.launches))
        built = call("portakern.backends.sycl.sycl.jobs:build_cpu", text, kernels, OPTIONS, timeout_s=_TIMEOUT_S)
        program = CompiledBinary(binaries.FORMAT, binaries.pack(built["device"], built["data"]), built["device"])
        return SyclExecutable(source, program)
