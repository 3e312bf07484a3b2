"""What a row must cost and what its device can do, so that rows that were never timed have a place on a roofline too."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.backend import Target
from portakern.device import Device, Figure
from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.study.row import Row


@dataclass(frozen=True)
class Cost:
    """Compulsory bytes and operations of a row, and the figure that bounds its arithmetic (``peak_bf16``)."""

    bytes: int
    flops: int
    peak: str

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes


@dataclass(frozen=True)
class Roof:
    """Bytes and operations a second of a product, and who says so.  ``copy`` is the copy that was measured there."""

    product: str
    bandwidth: float | None
    peak: float | None
    copy: float | None
    sources: tuple[str, ...]

    @property
    def memory(self) -> float | None:
        """The stated bandwidth, else what a copy reached."""
        return self.bandwidth or self.copy

    def at(self, intensity: float) -> float | None:
        """Operations a second that no kernel of this intensity exceeds; ``None`` where nothing bounds it."""
        known = [x for x in (self.memory and self.memory * intensity, self.peak) if x]
        return min(known) if known else None


def cost_of(row: Row) -> Cost | None:
    """From the row, or from its time, which has it in rows that older versions wrote."""
    told = row.cost or (row.time or {}).get("roofline") or {}
    if not told.get("bytes") or told.get("flops") is None:
        return None
    stated = (told.get("stated") or {}) if "stated" in told else {}
    peak = told.get("peak") or next((k for k in stated if k.startswith("peak_")), "")
    return Cost(int(told["bytes"]), int(told["flops"]), peak)


def roof_of(row: Row) -> Roof | None:
    """The roof of the product that the row's target names or stands for; ``None`` where nothing is known of it."""
    cost, device = cost_of(row), product_of(row)
    measured = ((row.time or {}).get("roofline") or {}).get("measured_copy_gbs")
    copy = measured * 1e9 if measured else None
    if device is None or cost is None:
        return Roof(row.device or row.target, None, None, copy, ("a copy, measured in the same run",)) if copy else None
    bandwidth, peak = device.figures.get("bandwidth"), device.figures.get(cost.peak)
    if bandwidth is None and peak is None and copy is None:
        return None
    sources = tuple(dict.fromkeys(f.source for f in (bandwidth, peak) if f is not None))
    if bandwidth is None and copy:
        sources = (*sources, "a copy, measured in the same run")
    return Roof(device.title, _value(bandwidth), _value(peak), copy, sources)


def least_us(row: Row) -> float | None:
    """No kernel takes less than this; ``None`` where nothing is known of the device."""
    cost, roof = cost_of(row), roof_of(row)
    if cost is None or roof is None:
        return None
    parts = [cost.bytes / roof.memory if roof.memory else None, cost.flops / roof.peak if roof.peak else None]
    known = [p for p in parts if p]
    return 1e6 * max(known) if known else None


def product_of(row: Row) -> Device | None:
    """The description of the product that the target names, else of the one that stands for its instruction set."""
    try:
        target: Target = registry().target(row.target)
        d = target.device
        return d if d.product or not d.default_product else registry().devices(target.language)[d.default_product]
    except (PortakernError, KeyError):
        return None  # rows from elsewhere may be of a target that is not known here


def _value(figure: Figure | None) -> float | None:
    return figure.value if figure is not None and figure.value > 0 else None
