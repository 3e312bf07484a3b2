"""Runs SYCL programs on this machine's CPU, through the native driver ``sycl`` that the shim hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.errors import RuntimeFault, ToolMissing
from portakern.ir.program import Array
from portakern.launch.host_executable import HostExecutable

from ..opencl import binaries
from ..scalars import scalar_argument
from ..workers import call
from . import library
from .toolchain import SyclToolchain

if TYPE_CHECKING:
    from portakern import native


class SyclRuntime:
    def available(self, target: Target) -> Availability:
        if target.device.kind != "cpu":
            return Availability(False, f"no runtime for {target.device.title}: its kernels are compiled only")
        return SyclToolchain().available(target)

    def device_name(self, target: Target) -> str:
        return call("portakern.backends.sycl.sycl.jobs:describe_device", timeout_s=120.0)

    def device(self, target: Target) -> native.Device:
        """The CPU device; raises :class:`ToolMissing` for a GPU, and where SYCL cannot be used."""
        if target.device.kind != "cpu":
            raise ToolMissing(f"no runtime for {target.device.title}: its kernels are compiled only")
        return library.device()

    def load(self, source: Source, binary: CompiledBinary | None) -> SyclExecutable:
        if source.target.device.kind != "cpu":
            raise RuntimeFault(f"{source.target} cannot run here", hint="its kernels are compiled only")
        return SyclExecutable(source, binary or SyclToolchain().compile(source))


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
