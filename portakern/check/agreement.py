"""Whether two implementations compute the same thing, by their outputs alone: coarse, quick, and over every element.

The derived bounds of :mod:`portakern.check.bounds` judge a kernel; this says only that two results are of one computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.dtypes import DTYPES

ALLOWED = {"f64": 1e-9, "f32": 2e-3, "f16": 2e-2, "bf16": 6.5e-2, "f8e4m3": 0.4, "f8e5m2": 0.6,
           "f8e4m3fnuz": 0.4, "f8e5m2fnuz": 0.6}  # fmt: skip
"""Largest difference as a share of |value| + scale: some tens of roundoffs; f32 leaves room for tf32 products.

The scale is the rms of the array, or of the element's line along the last dim where that is larger: the lines of one array
may be of different sizes (the first rows of causal attention are many times the last ones)."""

_ARRAY_CHUNK, _TENSOR_CHUNK = 1 << 18, 1 << 24
"""Elements compared at once: what caches of a CPU hold; what is worth a launch on a GPU."""


@dataclass(frozen=True)
class Agreement:
    """``worst`` difference (see :data:`ALLOWED`) and what was allowed; ``message`` says how they differ, or is ''."""

    worst: float
    allowed: float
    message: str = ""


def agreement(ours: Any, theirs: Any, dtypes: tuple[str, ...], noise: float = 0.0) -> Agreement:
    """How two arrays of one output agree.

    Args:
        ours, theirs: both numpy arrays, or both tensors (whatever has ``detach``), compared on the device they lie on; of
            any dtypes.
        dtypes: in which the operator's values are held; the coarsest says what is allowed, whole numbers must be equal.
        noise: a difference that is none, in the array's own unit.
    """
    if tuple(ours.shape) != tuple(theirs.shape):
        return Agreement(float("inf"), 0.0, f"its shape is {list(theirs.shape)}, not {list(ours.shape)}")
    count = math.prod(ours.shape)
    if not count:
        return Agreement(0.0, 0.0)
    last = ours.shape[-1] if ours.shape else 1
    a, b = ours.reshape(-1, last), theirs.reshape(-1, last)
    tensors = hasattr(ours, "detach")
    if not (ours.is_floating_point() if tensors else a.dtype.kind not in "iub"):
        off = int((a != b).sum()) if tensors else int((a.astype(np.int64) != b.astype(np.int64)).sum())
        return Agreement(float(off), 0.0, f"{off} of {count} elements differ" if off else "")
    allowed = max(ALLOWED.get(d, 0.0) for d in dtypes if DTYPES[d].is_float)
    off = distance(ours, theirs, allowed < 1e-6, noise)
    worst = math.inf if off.lost else off.worst
    if worst <= allowed:
        return Agreement(worst, allowed)
    return Agreement(worst, allowed, f"it differs by {worst:.2g} of a value, where {allowed:g} would be rounding")


@dataclass(frozen=True)
class Distance:
    """How far elements are off, as shares of their values: the ``worst`` one, and all of them in the mean (``rms``).  ``lost``
    are infinitely far, and in neither."""

    worst: float
    rms: float
    lost: int


def distance(ours: Any, theirs: Any, exact: bool = True, noise: float = 0.0) -> Distance:
    """Of two arrays of floats of one shape, both numpy's or both tensors; ``exact``: computed in float64, else in float32."""
    count = math.prod(ours.shape)
    if not count:
        return Distance(0.0, 0.0, 0)
    last = ours.shape[-1] if ours.shape else 1
    a, b = ours.reshape(-1, last), theirs.reshape(-1, last)
    if hasattr(ours, "detach"):
        found = _shares_of_tensors(a, b, exact, noise)
    else:
        found = _shares(a, b, np.float64 if exact else np.float32, noise)
    worst, squares, lost = 0.0, 0.0, 0
    for most, total, beyond in found:
        worst, squares, lost = max(worst, most), squares + total, lost + beyond
    return Distance(worst, (squares / max(1, count - lost)) ** 0.5, lost)


def _steps(shape: tuple[int, ...], chunk: int = _ARRAY_CHUNK) -> list[slice]:
    rows = max(1, chunk // max(1, shape[1]))
    return [slice(at, at + rows) for at in range(0, shape[0], rows)]


def _shares(a: np.ndarray, b: np.ndarray, kind: type, noise: float) -> Iterator[tuple[float, float, int]]:
    """Of some lines at a time the largest share, the sum of squares of all, and how many are infinite."""
    total, finite = 0.0, 0
    for rows in _steps(b.shape):
        y = b[rows].astype(kind)
        good = np.isfinite(y)
        total += float(np.square(y, dtype=np.float64, where=good, out=np.zeros(y.shape)).sum())
        finite += int(good.sum())
    whole = (total / finite) ** 0.5 + 1e-30 if finite else 1.0
    for rows in _steps(a.shape):
        x, y = a[rows].astype(kind), b[rows].astype(kind)
        with np.errstate(all="ignore"):
            good = np.isfinite(y)
            squares = np.square(np.where(good, y, 0), dtype=np.float64).sum(-1, keepdims=True)
            scale = np.maximum(whole, np.sqrt(squares / np.maximum(good.sum(-1, keepdims=True), 1)))
            share = np.maximum(np.abs(x - y) - noise, 0) / (np.abs(y) + scale)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            lost = ~(same | np.isfinite(share))
            share = np.where(same | lost, 0.0, share)
        yield float(share.max()), float(np.square(share, dtype=np.float64).sum()), int(lost.sum())


def _shares_of_tensors(a: Any, b: Any, exact: bool, noise: float) -> Iterator[tuple[float, float, int]]:
    """The same by the tensors' own methods, where they are."""
    total, finite = 0.0, 0
    for rows in _steps(tuple(b.shape), _TENSOR_CHUNK):
        y = b[rows].double()
        total += float(y.nan_to_num(0.0, 0.0, 0.0).square().sum())
        finite += int(y.isfinite().sum())
    whole = (total / finite) ** 0.5 + 1e-30 if finite else 1.0
    for rows in _steps(tuple(a.shape), _TENSOR_CHUNK):
        x, y = (v[rows].double() if exact else v[rows].float() for v in (a, b))
        squares = y.nan_to_num(0.0, 0.0, 0.0).double().square().sum(-1, keepdim=True)
        scale = (squares / y.isfinite().sum(-1, keepdim=True).clamp(min=1)).sqrt().clamp(min=whole)
        share = ((x - y).abs() - noise).clamp(min=0) / (y.abs() + scale)
        same = (x == y) | (x.isnan() & y.isnan())
        lost = ~(same | share.isfinite())
        share = share.masked_fill(same | lost, 0.0)
        yield float(share.max()), float(share.double().square().sum()), int(lost.sum())
