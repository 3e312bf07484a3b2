"""Runs SYCL programs on this machine's CPU and on Intel's GPUs, through the native driver ``sycl`` that the shim hands in.

The way to a GPU, through SYCL's Level Zero adapter, was tested with the CPU device in a GPU's place and has met no GPU: its
results are to be looked at twice until it has (docs/targets.md).
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING, Any

from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.emit.clike import inline_headers
from portakern.errors import PortakernError, RuntimeFault, ToolMissing
from portakern.ir.program import Array
from portakern.launch.executable import NativeExecutable
from portakern.launch.host_executable import HostExecutable

from ..opencl import binaries
from ..scalars import scalar_argument
from ..workers import call
from . import gpus, library
from .toolchain import SyclToolchain

if TYPE_CHECKING:
    from portakern import native


UNPROVED = "a path that was tested with the CPU in the GPU's place and has met no GPU yet"
"""What rows and docs say of all that is done on a GPU here."""

ARRAYS = "xpu"
"""What torch calls Intel's GPUs."""

OPTIONS: tuple[str, ...] = ()
"""Of the compiler, beside those of every kernel."""
_TIMEOUT_S = 300.0


class SyclRuntime:
    arrays = ARRAYS

    def available(self, target: Target) -> Availability:
        usable = SyclToolchain().available(target)
        if target.device.kind == "cpu" or not usable:
            return usable
        if why := gpus.missing(target):
            return Availability(False, why)
        return Availability(True, f"{target.device.title} through SYCL's Level Zero adapter; {UNPROVED}")

    def device_name(self, target: Target) -> str:
        if target.device.kind != "cpu":
            return call("portakern.backends.sycl.sycl.jobs:describe_gpu", gpus.wanted(target), timeout_s=120.0)
        return call("portakern.backends.sycl.sycl.jobs:describe_device", timeout_s=120.0)

    def device(self, target: Target) -> native.Device:
        """The CPU device, or the first GPU of the target; raises :class:`ToolMissing` where there is none."""
        if target.device.kind == "cpu":
            return library.device()
        if why := gpus.missing(target):
            raise ToolMissing(f"{target} cannot be run here: {why}")
        return opened(target)

    def load(self, source: Source, binary: CompiledBinary | None) -> SyclExecutable | SyclGpuExecutable:
        if source.target.device.kind != "cpu":
            return SyclGpuExecutable(source, opened(source.target))
        return SyclExecutable(source, binary or SyclToolchain().compile(source))


def opened(target: Target) -> native.Device:
    found = library.gpu(gpus.wanted(target))
    own_gpu_kernels()
    return found


@cache
def own_gpu_kernels() -> None:
    """The driver's kernels are compiled once for all GPUs; where that fails it has none, and says so when it needs them."""
    from .language import headers

    with contextlib.suppress(PortakernError):
        library.give_gpu_kernels(spirv_of(inline_headers((library.SHIM / "own_gpu.cpp").read_text(), headers())))


def spirv_of(text: str) -> bytes:
    return call("portakern.backends.sycl.sycl.jobs:to_spirv", text, OPTIONS, timeout_s=_TIMEOUT_S)[0]


class SyclGpuExecutable(NativeExecutable):
    """A program on a GPU, which its driver compiles from SPIR-V; what ocloc made of the same text is for looking at."""

    def __init__(self, source: Source, device: native.Device) -> None:
        spirv = spirv_of(inline_headers(source.text, source.headers)) if source.launches else b""
        super().__init__(source, device, spirv, kind=ARRAYS)

    @property
    def method(self) -> str:
        return f"compiled from SPIR-V by the GPU's driver, {UNPROVED}"

    def _scalar(self, array: Array, value: Any) -> Any:
        return scalar_argument(array, value)


class SyclExecutable(HostExecutable):
    """A program on the CPU device.

    It uses arrays where they are, so that writes beside one reach its guard bands.
    """

    def __init__(self, source: Source, binary: CompiledBinary) -> None:
        built_for, here = binaries.built_for(binary.data), library.device_name()
        if built_for != here:
            raise RuntimeFault(f"the program was built for {built_for}; this machine has {here}", hint="build it again here")
        super().__init__(source, library.device(), binaries.content(binary.data))

    def _scalar(self, array: Array, value: Any) -> Any:
        return scalar_argument(array, value)
