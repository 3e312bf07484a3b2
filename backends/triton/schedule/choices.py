"""What tuning tries for Triton beside the schedules that are listed (see ``Language.choices``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portakern.device import Device
from portakern.ir.schedule import Nest, Value

from ..prepare.dots import WIDTH, shortest, takes
from ..text.memory import KEEP

_WARPS = (1, 2, 4, 8, 16, 32)
_TILES = (WIDTH, 32, 64, 128, 256)


def choices(nest: Nest, device: Device) -> Mapping[str, Sequence[Value]]:
    """Values by axis, role, ``warps``, ``stages`` or option.  What does not fit the device is dropped by the tuner."""
    found: dict[str, Sequence[Value]] = {}
    warps = [w for w in _WARPS if w * device.count("subgroup") <= device.count("threads_per_block")]
    match nest.family:
        case "elementwise":
            axes = nest.role("parallel")
            outer = {a.name: (1, 2, 4) for a in axes[-2:-1]}
            found = {"warps": warps, **outer, axes[-1].name: (256, 512, 1024, 2048, 4096, 8192)}
        case "transpose":
            found = {"warps": warps[1:5]}
        case "segments":
            lines = not any(a.contiguous for a in nest.role("parallel"))
            found = {"warps": warps[:4], **({"walked": (32, 64, 128, 256, 512, 1024)} if lines else {})}
        case "held":
            found = {"warps": warps}
        case "rows" | "scan" | "associative":
            found = {"warps": warps, "stages": (1, 2, 3, 4)}
            if parallel := [a for a in nest.role("parallel") if not a.contiguous]:
                found[parallel[-1].name] = (1, 2, 4)
        case "contraction" if not takes(device, nest.dots):
            found = {"warps": (4, 8), "m": _TILES[:2], "n": _TILES[:2], "k": (4, 8)}
        case "contraction":
            found = {"group_m": (1, 4, 8, 16), "warps": (4, 8), "stages": (2, 3, 4, 5, 8),
                     "m": _TILES, "n": _TILES, "k": [n for n in _TILES[:-1] if n >= shortest(device, nest.dots)]}  # fmt: skip
            if device.has("tma"):
                found |= {"descriptors": (0, 1, 2), "pack": ("none", "m", "n", "both")}
                found["programs"] = (0, device.count("units", 0))
        case "attention":
            found = {"warps": (4, 8), "stages": (1, 2, 3, 4), "m": (64, 128, 256), "n": (32, 64, 128), "heads": (0, 8, 16, 32),
                     "split": (1, 2, 3)}  # fmt: skip
            if device.has("wgmma"):
                found["ahead"] = (0, 1, 2)
    if device.vendor == "NVIDIA" and nest.family not in ("contraction", "grouped", "attention"):
        found["keep"] = KEEP
    if device.vendor == "AMD":
        found["waves_per_eu"] = (0, 1, 2, 3)
    return found
