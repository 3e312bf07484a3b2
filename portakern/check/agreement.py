"""Whether two implementations compute the same thing, by their outputs alone: coarse, quick, and over every element.

The derived bounds of :mod:`portakern.check.bounds` judge a kernel; this says only that two results are of one computation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portakern.dtypes import DTYPES

ALLOWED = {"f64": 1e-9, "f32": 2e-3, "f16": 2e-2, "bf16": 6.5e-2, "f8e4m3": 0.4, "f8e5m2": 0.6}
"""Largest difference as a share of |value| + rms of the array: some tens of roundoffs; f32 leaves room for tf32 products."""

_CHUNK = 1 << 24


@dataclass(frozen=True)
class Agreement:
    """``worst`` difference (see :data:`ALLOWED`) and what was allowed; ``message`` says how they differ, or is ''."""

    worst: float
    allowed: float
    message: str = ""


def agreement(ours: np.ndarray, theirs: np.ndarray, dtypes: tuple[str, ...]) -> Agreement:
    """How two arrays of one output agree.

    Args:
        ours, theirs: of any dtypes.
        dtypes: in which the operator's values are held; the coarsest says what is allowed, whole numbers must be equal.
    """
    if ours.shape != theirs.shape:
        return Agreement(float("inf"), 0.0, f"its shape is {list(theirs.shape)}, not {list(ours.shape)}")
    if not ours.size:
        return Agreement(0.0, 0.0)
    a, b = ours.reshape(-1), theirs.reshape(-1)
    if a.dtype.kind in "iub":
        off = int((a.astype(np.int64) != b.astype(np.int64)).sum())
        return Agreement(float(off), 0.0, f"{off} of {a.size} elements differ" if off else "")
    allowed = max(ALLOWED.get(d, 0.0) for d in dtypes if DTYPES[d].is_float)
    kind = np.float64 if allowed < 1e-6 else np.float32
    scale = _rms(b, kind)
    worst = 0.0
    for at in range(0, a.size, _CHUNK):
        x, y = a[at : at + _CHUNK].astype(kind), b[at : at + _CHUNK].astype(kind)
        with np.errstate(all="ignore"):
            share = np.abs(x - y) / (np.abs(y) + scale)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            share = np.where(same, 0.0, np.where(np.isfinite(share), share, np.inf))
        worst = max(worst, float(share.max()))
    if worst <= allowed:
        return Agreement(worst, allowed)
    return Agreement(worst, allowed, f"it differs by {worst:.2g} of a value, where {allowed:g} would be rounding")


def _rms(x: np.ndarray, kind: type) -> float:
    """Of the finite elements; never 0."""
    total, count = 0.0, 0
    for at in range(0, x.size, _CHUNK):
        part = x[at : at + _CHUNK].astype(kind)
        finite = part[np.isfinite(part)]
        total += float(np.square(finite, dtype=np.float64).sum())
        count += finite.size
    return (total / count) ** 0.5 + 1e-30 if count else 1.0
