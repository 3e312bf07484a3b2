"""Which of two results is nearer to the program without its roundings: what says whether a difference is a fault.

A program in bf16 rounds on its way, and so does what it is compared with, each where it likes: a kernel that keeps a row in
f32 differs from a library that stores it.  Where the nearest of several codes is chosen by distances that are nearly equal,
both choose, and not alike.  Neither is the answer; the program in float64 that rounds nowhere is near to both.  A result that
is no farther from it than the library's is as good as that.
"""

from __future__ import annotations

import math
from typing import Any

from portakern.check.agreement import ALLOWED, distance
from portakern.dtypes import DTYPES

TIMES = 2.0
"""How many times as far from float64 as the other result one may be: both round as often, by chance to other sides."""

MEAN = 8.0
"""In the mean one is so many times nearer than what is allowed of its worst element, though all were rounded."""

FEW, OF = 4, 64
"""Whole numbers that may differ beside those of the other result, one of so many: what is nearly equal is chosen by chance."""


def is_farther(ours: Any, theirs: Any, exact: Any, dtypes: tuple[str, ...]) -> str:
    """How much farther ``ours`` is from ``exact`` than ``theirs`` is, or ''.

    Args:
        ours, theirs, exact: arrays of one output, all numpy's or all tensors; ``exact`` is of float64 where they are of floats.
        dtypes: in which the operator's values are held; the coarsest says what is allowed in any case.
    """
    floats = ours.is_floating_point() if hasattr(ours, "detach") else ours.dtype.kind not in "iub"
    if not floats:
        a, b = (int((x != exact).sum()) for x in (ours, theirs))
        most = TIMES * b + min(FEW, math.prod(ours.shape) // OF)
        return f"{a} elements are not those of float64, where {b} of the other's are not" if a > most else ""
    allowed = max(ALLOWED.get(d, 0.0) for d in dtypes if DTYPES[d].is_float)
    a, b = distance(ours, exact), distance(theirs, exact)
    if a.lost > TIMES * b.lost:
        return f"{a.lost} elements are infinitely far from float64, where {b.lost} of the other's are"
    if a.worst > max(allowed, TIMES * b.worst) or a.rms > max(allowed / MEAN, TIMES * b.rms):
        return (f"it is {a.worst:.2g} of a value off from float64 ({a.rms:.2g} in the mean), where the other is {b.worst:.2g} "
                f"({b.rms:.2g})")  # fmt: skip
    return ""
