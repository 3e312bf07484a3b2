"""One output against what is expected of it: within its bound everywhere, or a sentence on where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from portakern.check.bounds import Choice, Val
from portakern.dtypes import DTYPES

RATIO_LIMIT = 1e30
"""Error ratios are cut off here, so that they stay numbers in JSON."""


@dataclass(frozen=True)
class OutputComparison:
    """``ratio``: the largest error over its bound, at most 1 where all is right; ``message``: what is wrong, or ''."""

    ratio: float
    message: str = ""


def compare(expected: Val, dtype: str, actual: np.ndarray) -> OutputComparison:
    """How ``actual`` (in the storage dtype) agrees with ``expected``."""
    if not actual.size:
        return OutputComparison(0.0)
    ratio = error_ratio(expected, dtype, actual)
    worst = float(ratio.max())
    if worst <= 1:
        return OutputComparison(worst)
    return OutputComparison(worst, _describe(expected, dtype, actual, ratio))


def error_ratio(expected: Val, dtype: str, actual: np.ndarray) -> np.ndarray:
    """Per element, the error over its bound.

    A bound is at least a quarter of a unit in the last place, so that a value which must match exactly and is off by
    one unit has the ratio 4.
    """
    if expected.choice is not None:
        return np.where(chosen(expected.choice, actual), 0.0, RATIO_LIMIT)
    kind = DTYPES[dtype]
    x, e = expected.x, expected.e
    with np.errstate(all="ignore"):
        if not kind.is_float:
            off = actual != x
            error = np.abs(actual.astype(np.float64) - x.astype(np.float64))
            return np.where(off, np.minimum(np.maximum(error, 0.5) / np.maximum(e, 0.5), RATIO_LIMIT), 0.0) * (e < np.inf)
        a = actual.astype(np.float64)
        bound = np.maximum(e, kind.rounding / 2 * np.abs(x) + kind.smallest / 4)
        ratio = np.minimum(np.abs(a - x) / bound, RATIO_LIMIT)
        same = (a == x) | (np.isnan(a) & np.isnan(x)) | (np.asarray(e) == np.inf)
        ratio = np.where(np.isnan(ratio), RATIO_LIMIT, ratio)
        # An infinite value has a zero bound by now, and the quotient above says nothing about it.
        return np.where(same, 0.0, np.where(np.isinf(x) | np.isinf(a), RATIO_LIMIT, ratio))


def chosen(choice: Choice, index: np.ndarray) -> np.ndarray:
    """Whether each index is one of the right ones."""
    n = choice.low.shape[choice.axis]
    inside = (index >= 0) & (index < n)
    safe = np.where(inside, index, 0).astype(np.int64)
    if index.ndim < choice.low.ndim:
        safe = np.expand_dims(safe, choice.axis)
    low, high = (np.take_along_axis(v, safe, choice.axis) for v in (choice.low, choice.high))
    if index.ndim < choice.low.ndim:
        low, high = low.squeeze(choice.axis), high.squeeze(choice.axis)
    return inside & (high >= choice.need) & (low <= choice.allow)


def _describe(expected: Val, dtype: str, actual: np.ndarray, ratio: np.ndarray) -> str:
    wrong = ratio > 1
    count = int(wrong.sum())
    place = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    got, want = actual[place], expected.x[place]
    bound = float(np.broadcast_to(expected.e, ratio.shape)[place])
    within = f" within {bound:.3g}" if DTYPES[dtype].is_float and 0 < bound < np.inf else ""
    where = f"the worst at {_place(place)}" if count > 1 else f"at {_place(place)}"
    which = f"{count} of {ratio.size} elements" if count > 1 else "1 element"
    return f"{which} wrong, {where}: {_number(got)} instead of {_number(want)}{within}{_extent(wrong)}"


def _place(place: tuple[Any, ...]) -> str:
    return f"[{', '.join(str(int(i)) for i in place)}]"


def _number(value: Any) -> str:
    return f"{float(value):.9g}" if np.asarray(value).dtype.kind not in "iub" else str(value)


def _extent(wrong: np.ndarray) -> str:
    """Where the wrong elements lie, when that is less than everywhere: often the name of the bug."""
    parts = []
    for dim, size in enumerate(wrong.shape):
        hit = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != dim)))
        low, high = int(hit[0]), int(hit[-1]) + 1
        parts.append(":" if (low, high) == (0, size) else f"{low}:{high}" if high - low > 1 else str(low))
    return f"; all in [{', '.join(parts)}]" if any(p != ":" for p in parts) and wrong.sum() > 1 else ""
