"""What a piece must cost on a device: its bytes and operations, and the least time that they take there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.program import Computed
from portakern.ir.size import Size, product
from portakern.ir.tensor import TensorProgram
from portakern.ir.tile import BufferType
from portakern.model_study.pieces import Piece
from portakern.spec.cost import cost
from portakern.timing.roofline import peak_name


@dataclass(frozen=True)
class Peak:
    """Bytes or operations a second, and who says so."""

    per_s: float
    source: str


@dataclass(frozen=True)
class Roof:
    """The bandwidth and the peaks (``peak_f32``) of a device, as its maker states them or as they were measured here.

    ``says`` is it in words.
    """

    bandwidth: Peak | None = None
    peaks: Mapping[str, Peak] = field(default_factory=dict)
    says: str = ""

    def to_dict(self) -> dict[str, Any]:
        figures = {"bandwidth": self.bandwidth, **self.peaks}
        return {"says": self.says, **{n: {"value": p.per_s, "source": p.source} for n, p in figures.items() if p is not None}}


def stated(device: Device) -> Roof:
    """The roof in a device's description; of an instruction set, that of its default product must be given."""
    figures = {n: Peak(f.value, f.source) for n, f in device.figures.items() if n == "bandwidth" or n.startswith("peak_")}
    bandwidth = figures.pop("bandwidth", None)
    return Roof(bandwidth, figures, f"stated for {device.title}" if bandwidth or figures else "")


@dataclass(frozen=True)
class Part:
    """Compulsory bytes (see :mod:`portakern.spec.cost`) and operations, the peak that counts for these, and how often."""

    bytes: int
    flops: int
    peak: str
    times: int = 1


@dataclass(frozen=True)
class Needs:
    """What parts need that run one after the other."""

    parts: tuple[Part, ...]

    @property
    def flops(self) -> int:
        return sum(p.flops * p.times for p in self.parts)

    @property
    def bytes(self) -> int:
        return sum(p.bytes * p.times for p in self.parts)


@dataclass(frozen=True)
class Bound:
    """No kernel takes less than ``us``; ``limiter`` is ``memory`` or ``arithmetic``."""

    us: float
    limiter: str


def needs_of(piece: Piece) -> Needs:
    return Needs(tuple(_part(c, piece) for c in piece.computed))


def needs_of_model(program: TensorProgram) -> Needs:
    """Of the model itself: every input read and every output written once."""
    found = cost(program)
    return Needs((Part(_int(found.bytes), _int(found.flops), peak_name(program)),))


def _part(c: Computed, piece: Piece) -> Part:
    found, times = cost(c.program), _int(c.times)
    kernels = [piece.program.kernels[n] for n, number in enumerate(piece.numbers) if c.first <= number < c.last]
    if any(k.family == "recurrence" for k in kernels):  # one kernel walks the steps: what all of them share is read once
        whole = sum(_int(product(a.type.shape)) * DTYPES[a.type.dtype].bytes for k in kernels for a in k.args
                    if isinstance(a.type, BufferType))  # fmt: skip
        return Part(whole, times * _int(found.flops), peak_name(c.program))
    return Part(_int(found.bytes), _int(found.flops), peak_name(c.program), times)


def _int(size: Size) -> int:
    return size if isinstance(size, int) else 0


def bound(needs: Needs, roof: Roof) -> Bound | None:
    """The least time on ``roof``; ``None`` where nothing is known of it.  A peak that is not known bounds nothing."""
    if roof.bandwidth is None:
        return None
    memory = [p.times * p.bytes / roof.bandwidth.per_s for p in needs.parts]
    arithmetic = [p.times * p.flops / roof.peaks[p.peak].per_s if p.peak in roof.peaks else 0.0 for p in needs.parts]
    us = 1e6 * sum(map(max, memory, arithmetic))
    return Bound(us, "arithmetic" if sum(arithmetic) > sum(memory) else "memory")


def higher(a: Roof, b: Roof) -> Roof:
    """The higher figure of each: what was reached once can be reached."""
    nothing = Peak(0.0, "")
    known = [r.bandwidth for r in (a, b) if r.bandwidth is not None]
    peaks = {n: max(a.peaks.get(n, nothing), b.peaks.get(n, nothing), key=_rate_of) for n in {**a.peaks, **b.peaks}}
    return Roof(max(known, key=_rate_of, default=None), peaks, b.says or a.says)


def _rate_of(peak: Peak) -> float:
    return peak.per_s


def words(roof: Roof, peaks: Sequence[str]) -> str:
    """The roof in words, with those of ``peaks`` that it has: ``39 GB/s, f32 190 GFLOP/s``."""
    parts = [_rate(roof.bandwidth.per_s, "B/s")] if roof.bandwidth else []
    known = [(n, roof.peaks[n].per_s) for n in peaks if n in roof.peaks]
    return ", ".join([*parts, *(f"{n.removeprefix('peak_')} {_rate(per_s, 'FLOP/s')}" for n, per_s in known)])


def _rate(per_s: float, unit: str) -> str:
    return f"{per_s / 1e12:.4g} T{unit}" if per_s >= 1e12 else f"{per_s / 1e9:.4g} G{unit}"
