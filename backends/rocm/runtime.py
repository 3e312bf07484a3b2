"""Runs code objects on AMD GPUs: on host data between guard bands, and on torch's arrays where they lie.

Through the native driver ``hip``, which was written from the HIP Runtime API reference and has met no AMD GPU: results of
this module are to be looked at twice until it has (docs/targets.md).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from portakern import native
from portakern.backend import Availability, CompiledBinary, Launch, Source, Target
from portakern.errors import PortakernError, RuntimeFault, ToolMissing
from portakern.launch.executable import NativeExecutable

DRIVER = "hip"
ARRAYS = "cuda"
"""What torch and cupy call AMD's GPUs, too."""

LIBRARY = "PORTAKERN_HIP_LIBRARY"
"""Environment variable with the file of libamdhip64, where it is not among the usual names."""

MAX_THREADS = 2**32 - 1
"""Of a grid along x: the dispatch packet counts work-items in 32 bits (HSA Platform System Architecture, AQL packets)."""

_SILICON = {
    "mi210": ("MI210",), "mi250x": ("MI250X",), "mi300x": ("MI300X",), "mi300a": ("MI300A",), "mi325x": ("MI325X",),
    "mi355x": ("MI355X",), "rx7900xtx": ("7900 XTX",), "rx9070xt": ("9070 XT",),
}  # fmt: skip


@dataclass(frozen=True)
class HipRuntime:
    """Through libamdhip64 alone; present only where an AMD GPU with its driver is."""

    def available(self, target: Target) -> Availability:
        try:
            found = self.device(target)
            return Availability(True, f"{found.facts.name} (device {found.ordinal})")
        except PortakernError as error:
            return Availability(False, error.message)

    def device_name(self, target: Target) -> str:
        return self.device(target).facts.name

    def device(self, target: Target) -> native.Device:
        """The first GPU of the target's instruction set (and product); raises :class:`ToolMissing` naming those there are."""
        found = devices(os.environ.get(LIBRARY, ""))
        for x in found:
            words = _SILICON.get(target.device.product, ())
            if _isa(x) == target.device.isa and all(word.lower() in x.facts.name.lower() for word in words):
                return x
        names = ", ".join(f"{x.facts.name} ({_isa(x)})" for x in found)
        raise ToolMissing(f"no GPU here runs {target}: found {names}")

    def load(self, source: Source, binary: CompiledBinary | None) -> NativeExecutable:
        if binary is None or binary.format not in ("hsaco", "none"):
            raise RuntimeFault(f"{source.operator} for {source.target} is run from a code object only", hint="compile it first")
        return NativeExecutable(source, self.device(source.target), binary.data, kind=ARRAYS, limit=_check_grid)


@cache
def devices(path: str) -> tuple[native.Device, ...]:
    """Every GPU, in HIP's order.  Raises :class:`ToolMissing` where there is no HIP runtime, or no GPU."""
    found = native.probe_driver(DRIVER, path)
    if not found.present:
        raise ToolMissing(f"AMD's HIP runtime is not installed here ({found.error})",
                          hint="run this target on a machine with an AMD GPU and ROCm; compiling needs neither")  # fmt: skip
    if not found.device_count:
        raise ToolMissing(f"AMD's HIP runtime is here and gives no GPU: {found.error}",
                          hint="is there a GPU, and may this process open /dev/kfd?")  # fmt: skip
    return tuple(native.open_device(DRIVER, n, path) for n in range(found.device_count))


def _isa(device: native.Device) -> str:
    """gfx942 of gfx942:sramecc+:xnack-."""
    return (device.facts.arch or "unknown").partition(":")[0]


def _check_grid(launch: Launch, grid: Sequence[int]) -> None:
    if grid[0] * launch.block[0] > MAX_THREADS:
        raise RuntimeFault(f"{launch.kernel} needs {grid[0]} blocks of {launch.block[0]} threads, and {MAX_THREADS} threads "
                           "are the most", hint="take larger tiles")  # fmt: skip
