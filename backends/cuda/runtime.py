"""Runs cubins on NVIDIA GPUs: on host data between guard bands, and on arrays of torch, cupy and others where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from portakern import native
from portakern.backend import Availability, CompiledBinary, Launch, Source, Target
from portakern.errors import PortakernError, RuntimeFault, ToolMissing
from portakern.launch.executable import NativeExecutable
from portakern.launch.tensor_maps import descriptors

from . import nvrtc

DRIVER = "cuda"
ARRAYS = "cuda"
"""What torch and cupy call the GPUs."""

MAX_GRID = (2**31 - 1, 65535, 65535)
"""Blocks along x, y and z (CUDA C++ Programming Guide, Technical Specifications per Compute Capability)."""

# What the driver calls a product.
_SILICON = {
    "a100": ("A100", "SXM", "80GB"), "a100-pcie": ("A100", "PCIe"), "a100-40gb": ("A100", "SXM", "40GB"), "h200": ("H200",),
    "h100-sxm": ("H100", "HBM3"), "h100-pcie": ("H100", "PCIe"), "b200": ("B200",), "rtx5090": ("RTX 5090",),
    "rtx-pro-6000": ("RTX PRO 6000",),
}  # fmt: skip


@dataclass(frozen=True)
class CudaRuntime:
    """Through the driver alone; needs no toolkit."""

    def before_fork(self) -> None:
        """The compiler, as far as it opens no device."""
        nvrtc.loaded()

    def available(self, target: Target) -> Availability:
        try:
            found = self.device(target)
            return Availability(True, f"{found.facts.name} (device {found.ordinal})")
        except PortakernError as error:
            return Availability(False, error.message)

    def device_name(self, target: Target) -> str:
        return self.device(target).facts.name

    def device(self, target: Target) -> native.Device:
        """The first GPU that runs code for the target; raises :class:`ToolMissing` naming the GPUs that there are."""
        found = devices()
        for x in found:
            if _runs(x, target):
                return x
        names = ", ".join(f"{x.facts.name} ({x.facts.arch})" for x in found)
        raise ToolMissing(f"no GPU here runs {target}: found {names}")

    def load(self, source: Source, binary: CompiledBinary | None) -> NativeExecutable:
        if binary is None or binary.format != "cubin":
            raise RuntimeFault(f"{source.operator} for {source.target} can be run from a cubin only", hint="compile it first")
        device = self.device(source.target)
        return NativeExecutable(source, device, binary.data, kind=ARRAYS, limit=_check_grid,
                                descriptors=descriptors(source, device))


@cache
def devices() -> tuple[native.Device, ...]:
    """Every GPU, in the driver's order.  Raises :class:`ToolMissing` where there is no driver, or no GPU."""
    found = native.probe_driver(DRIVER)
    if not found.present:
        raise ToolMissing(f"the NVIDIA driver is not installed here ({found.error})",
                          hint="run this target on a machine with an NVIDIA GPU")
    if not found.device_count:
        raise ToolMissing(f"the NVIDIA driver gives no GPU: {found.error or 'it has none'}",
                          hint="is there a GPU, and may this process use it?")
    return tuple(native.open_device(DRIVER, n) for n in range(found.device_count))


def _runs(device: native.Device, target: Target) -> bool:
    number = target.device.isa.removeprefix("sm_")
    exact = not number.isdigit()  # architecture-specific code (sm_90a) runs on that capability alone
    want = _capability(number.rstrip("af"))
    have = _capability((device.facts.arch or "sm_00").removeprefix("sm_"))
    fits = have == want if exact else have[0] == want[0] and have[1] >= want[1]
    return fits and all(word.lower() in device.facts.name.lower() for word in _SILICON.get(target.device.product, ()))


def _capability(number: str) -> tuple[int, int]:
    return int(number[:-1]), int(number[-1])


def _check_grid(launch: Launch, grid: Sequence[int]) -> None:
    for n, most, axis in zip(grid, MAX_GRID, "xyz", strict=True):
        if n > most:
            raise RuntimeFault(f"{launch.kernel} needs {n} blocks along {axis}, and {most} is the most",
                               hint="take larger tiles")
