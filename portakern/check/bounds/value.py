"""A value with a bound, and what rounding, infinities and overflow do to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.dtypes import DTYPES
from portakern.ir.oracle import round_to

Bound = Any  # 0.0, or an array of the value's shape


@dataclass(frozen=True)
class Choice:
    """The index ``c`` along ``axis`` of an array is right where ``high[c] >= need`` and ``low[c] <= allow``."""

    axis: int
    low: np.ndarray
    high: np.ndarray
    need: np.ndarray
    allow: np.ndarray


@dataclass(frozen=True)
class Accumulated:
    """What a sum is made of, since a kernel may start its accumulator from what is added to the sum.

    ``length`` is how many roundings one element passes through, each of ``unit``; ``total`` the sum of the terms' magnitudes.
    ``count`` is how many terms there are, those that are zero among them.
    """

    length: Any
    unit: float
    total: np.ndarray
    count: Any = 0


KEPT_BYTES = 1 << 24
"""Of an array whose magnitudes are kept."""


@dataclass(frozen=True)
class Val:
    """An exact value and how far a correct kernel may be from it.

    ``choice`` where it is one of several indices; ``sum`` where it is a sum; ``overflown`` where it is infinite for want of
    range alone, so that an addition fused with what gave it may still be finite; ``shift`` where it is an exponent that a
    kernel may scale before it subtracts ``shift`` from it; ``cancels`` where terms of both signs went into it that may leave
    the other sign than they should.  A bound of infinity leaves everything open, NaN too.
    """

    x: np.ndarray
    e: Bound = 0.0
    choice: Choice | None = None
    sum: Accumulated | None = None
    overflown: np.ndarray | None = None
    shift: np.ndarray | None = None
    cancels: bool = False

    @property
    def exact(self) -> bool:
        return isinstance(self.e, float) and self.e == 0.0

    def bound(self) -> np.ndarray:
        return np.broadcast_to(self.e, self.x.shape)

    def open(self) -> np.ndarray:
        """Where anything goes, NaN too."""
        return np.isinf(self.bound())

    # What the steps of a loop ask of the same captured array again and again.

    @cached_property
    def any_open(self) -> bool:
        return not self.exact and bool(np.isinf(self.e).any())

    @cached_property
    def finite(self) -> bool:
        return bool(np.isfinite(self.x).all())

    @cached_property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.x))

    @cached_property
    def _kept_sizes(self) -> np.ndarray:
        return np.abs(self.x)

    def sizes(self) -> np.ndarray:
        """Magnitudes, kept unless they take much memory."""
        return self._kept_sizes if self.x.nbytes <= KEPT_BYTES else np.abs(self.x)

    def maybe_zero(self, dtype: str) -> np.ndarray:
        """Where a correct kernel may have zero."""
        return self.sizes() <= self.bound() + (0.0 if self.exact else accuracy.smallest_normal(dtype))


def finish(dtype: str, r: np.ndarray, spread: Bound, operands: Sequence[Val], ulps: float = 0.5, floor: Bound = 0.0,
           doubt: np.ndarray | bool = False) -> Val:  # fmt: skip
    """The value ``r`` of an operation with what its operands' bounds do to it (``spread``) and its own rounding.

    ``doubt`` is where NaN or an infinity depends on what is not decided.
    """
    if r.dtype.kind != "f":
        return Val(r, spread)
    size = np.abs(r)
    tiny, u = accuracy.smallest_normal(dtype), accuracy.unit(dtype)
    settled = np.asarray(spread) == 0  # else what is rounded may be a neighbour of r, and not representable where r is
    own = 2 * ulps * u * size + tiny
    if ulps == 0.5:  # rounded correctly: exact where the result can be represented
        held = r if dtype == "f64" else round_to(r, "f32")
        own = np.where(settled & (held == r) & ((size >= tiny) | (size == 0)), 0.0, own)
    if DTYPES[dtype].bits < 32:  # may be narrowed to its dtype, or kept in f32
        kind = DTYPES[dtype]
        own = own + np.where(settled & (round_to(r, dtype) == r), 0.0, kind.rounding * size + kind.smallest / 2)
    e = own + spread + floor if ulps != 0.5 or not isinstance(floor, float) else own + spread
    return extremes(dtype, r, e, operands, doubt)


def extremes(dtype: str, r: np.ndarray, e: np.ndarray, operands: Sequence[Val], doubt: np.ndarray | bool = False) -> Val:
    """Infinities, NaN and overflow: certain ones must match, uncertain ones have no bound."""
    if not r.size:
        return Val(r)
    top = accuracy.largest(dtype)
    if not np.any(doubt) and float(np.max(np.abs(r) + e)) < top:  # false for NaN too
        return Val(r) if not e.any() else Val(r, e)
    doubtful = np.broadcast_to(np.asarray(doubt), r.shape).copy()
    for v in operands:
        if not v.exact:
            doubtful |= np.broadcast_to(np.isinf(v.e) if np.shape(v.e) in (r.shape, ()) else np.isinf(v.e).any(), r.shape)
    e = np.where(np.isnan(e) | doubtful, np.inf, e)
    e = np.where(np.isfinite(r), e, np.where(doubtful, np.inf, 0.0))
    over = np.isfinite(r) & (np.abs(r) + e >= top)
    certain = np.zeros(r.shape, bool)
    if DTYPES[dtype].bits >= 32 or dtype == "bf16":
        certain = over & (np.abs(r) - e > top * (1 + 2 * DTYPES[dtype].rounding))
        r = np.where(certain, np.copysign(np.inf, r), r)
        e = np.where(certain, 0.0, np.where(over, np.inf, e))
    else:  # f16 and f8 may be kept in f32, where they do not overflow
        e = np.where(over, np.inf, e)
    return Val(r, e, overflown=certain if certain.any() else None)


def ends(f: Callable[[np.ndarray], np.ndarray], v: Val, r: np.ndarray) -> Bound:
    """How far the monotone ``f`` gets from ``r`` when its argument moves within its bound."""
    if v.exact:
        return 0.0
    low, high = f(v.x - v.e), f(v.x + v.e)
    spread = np.maximum(np.abs(high - r), np.abs(r - low))
    same = ((low == r) & (high == r)) | (np.isnan(low) & np.isnan(r) & np.isnan(high))
    return np.where(v.open(), np.inf, np.where(same, 0.0, np.where(np.isnan(spread), np.inf, spread)))


def may_change_sign(v: Val, total: np.ndarray) -> bool:
    """Whether rounding may give a sum another sign; ``total`` is the sum of its terms' magnitudes."""
    return not v.exact and bool(np.any((np.abs(v.x) <= v.e) & (total > np.abs(v.x))))


def certainly_nan(*values: Val) -> np.ndarray:
    """Where one of the values is NaN in every correct kernel."""
    found = [np.isnan(v.x) & ~v.open() for v in values]
    return np.logical_or.reduce(np.broadcast_arrays(*found))


def any_inexact(*values: Val) -> bool:
    return not all(v.exact for v in values)
