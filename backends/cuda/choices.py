"""What tuning tries for CUDA C++ beside the schedules that are listed (see ``Language.choices``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portakern.device import Device
from portakern.ir.schedule import Nest, Value

from .schedules import MAX_WARPS

_WARPS = tuple(w for w in (1, 2, 4, 8, 16, 32) if w <= MAX_WARPS)


def choices(nest: Nest, device: Device) -> Mapping[str, Sequence[Value]]:
    """Values by axis, role, ``warps``, ``stages`` or option.  What does not fit the device is dropped by the tuner."""
    match nest.family:
        case "elementwise":
            axes = nest.role("parallel")
            outer = {a.name: (1, 2, 4) for a in axes[-2:-1]}
            return {"warps": _WARPS, **outer, axes[-1].name: (256, 512, 1024, 2048, 4096, 8192)}
        case "held":
            return {"warps": _WARPS}
        case "rows" | "scan" | "associative":
            rows = [a for a in nest.role("parallel") if not a.contiguous]
            return {"warps": _WARPS, **{a.name: (1, 2, 4) for a in rows[-1:]}}
        case "segments" if any(a.contiguous for a in nest.role("parallel")):
            return {"parallel": (32, 64, 128, 256), "warps": (1, 2, 4, 8)}
        case "segments":
            return {"walked": (32, 64, 128, 256, 512, 1024, 2048), "warps": (1, 2, 4, 8)}
        case "transpose":
            return {"warps": _WARPS[1:]}
        case "attention" if device.has("wgmma") and nest.dots in ("bf16", "f16"):
            return {"stages": (2, 3), "heads": (4, 8, 16, 32), "lag": (0, 8)}
        case "contraction" if device.has("wgmma") and nest.dots in ("bf16", "f16"):
            return {"m": (64, 128, 256), "n": (64, 128, 256), "k": (64, 128), "warps": (4, 8), "stages": (2, 3, 4, 5, 6, 8),
                    "cluster": ("1x1", "2x1", "1x2"), "band": (4, 8, 16)}  # fmt: skip
        case "contraction" if device.has("tcgen05") and nest.dots in ("bf16", "f16"):
            return {"m": (64, 128), "n": (64, 128, 192, 256), "k": (64, 128), "warps": (4, 8), "stages": (2, 3, 4, 5, 6, 8, 12),
                    "cluster": ("1x1", "2x1", "1x2"), "band": (4, 8, 16)}  # fmt: skip
    return {}
