"""Runs OpenCL programs on this machine's CPU device, through the native driver ``opencl``."""

from __future__ import annotations

from functools import cache
from typing import Any

from portakern import native
from portakern.backend import Availability, CompiledBinary, Source, Target
from portakern.errors import PortakernError, RuntimeFault, ToolMissing
from portakern.ir.program import Array
from portakern.launch.host_executable import HostExecutable

from ..scalars import scalar_argument
from .binaries import built_for
from .platforms import INSTALL, intel_library, show_drivers
from .toolchain import OpenCLToolchain

DRIVER = "opencl"


class OpenCLRuntime:
    def available(self, target: Target) -> Availability:
        return OpenCLToolchain().available(target)

    def device_name(self, target: Target) -> str:
        return describe(self.device(target))

    def device(self, target: Target) -> native.Device:
        """The CPU device; raises :class:`ToolMissing` where there is none."""
        return cpu_device("")

    def load(self, source: Source, binary: CompiledBinary | None) -> OpenCLExecutable:
        if binary is None:
            binary = OpenCLToolchain().compile(source)
        return OpenCLExecutable(source, cpu_device(built_for(binary.data)), binary.data)


class OpenCLExecutable(HostExecutable):
    """A program on the device.

    It uses arrays where they are, so that writes beside one reach its guard bands.
    """

    def _scalar(self, array: Array, value: Any) -> Any:
        return scalar_argument(array, value)


def describe(device: native.Device) -> str:
    """The device as binaries for it say it (see :func:`.platforms.describe`)."""
    return f"{device.facts.name} ({device.facts.version})"


@cache
def cpu_device(description: str) -> native.Device:
    """The CPU device of this description; the first there is where it is empty.

    Intel's library is opened itself. The system's loader, which SYCL brings another version of, stays out of the process
    unless a device of another vendor is wanted.

    Raises:
        ToolMissing: there is no CPU device here.
        RuntimeFault: only others than the one described.
    """
    found: list[str] = []
    intel = intel_library()
    for path in (str(intel), "") if intel is not None else ("",):
        for device in _devices(path):
            if description in ("", describe(device)):
                return device
            found.append(describe(device))
        if not description and found:
            break
    if not found:
        raise ToolMissing("no OpenCL CPU device was found on this machine", hint=INSTALL)
    raise RuntimeFault(f"the program was built for {description}; this machine has {', '.join(found)}",
                       hint="build it again here")


def _devices(path: str) -> list[native.Device]:
    """The CPU devices that a library shows."""
    if not path:
        show_drivers()
    devices: list[native.Device] = []
    for ordinal in range(native.probe_driver(DRIVER, path).device_count):
        try:
            device = native.open_device(DRIVER, ordinal, path)
        except PortakernError:
            continue  # has no shared virtual memory, or is taken
        if device.facts.host_memory and "FPGA" not in f"{device.facts.name} {device.facts.version}":
            devices.append(device)
    return devices
