"""Long running sums whose terms are rounded alike.

What an addition loses depends on the term and on the binade of the running sum alone.  Of generic terms it is as often more
as less and mostly cancels (Higham and Mary 2019): :func:`portakern.check.accuracy.chain` counts on that.  Terms that are equal,
or differ by less than is lost, lose the same each time, and a plain running sum drifts, by up to n roundings.  Therefore what a
running sum would lose is added up here.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from portakern.check import accuracy

from .value import Bound

RUNS = 16
"""Terms are looked at in as many runs, and as many interleaved parts, since a kernel sums each on its own."""


def drift(terms: np.ndarray, error: Bound, total: np.ndarray) -> np.ndarray:
    """How many roundings of ``total`` running sums in f32 lose by rounding alike; 0 where they are too short for that.

    Args:
        terms: [..., n].
        error: their bound.
        total: [...], the sums of their magnitudes.
    """
    n = terms.shape[-1]
    lost = np.zeros(total.shape)
    if n <= accuracy.LONGEST_CHAIN or not terms.size:
        return lost
    padding = [(0, 0)] * (terms.ndim - 1) + [(0, -n % RUNS)]
    terms = np.pad(terms, padding)
    error = error if isinstance(error, float) else np.pad(np.broadcast_to(error, (*terms.shape[:-1], n)), padding)
    _, exponent = np.frexp(total)
    for below in range(math.ceil(math.log2(n / accuracy.LONGEST_CHAIN)) + 1):  # a smaller sum loses less than what is granted
        ulp = np.ldexp(1.0, exponent - 24 - below)[..., None]
        lost = np.maximum(lost, _lost(terms, error, ulp))
    with np.errstate(all="ignore"):
        return np.nan_to_num(lost / (accuracy.unit("f32") * total), nan=0.0, posinf=0.0)


def _lost(terms: np.ndarray, error: Bound, ulp: np.ndarray) -> np.ndarray:
    """What is lost by adding each of ``terms`` to numbers of that ``ulp``."""
    with np.errstate(all="ignore"):
        each = ulp * np.rint(terms / ulp) - terms
        runs = np.abs(each.reshape(*each.shape[:-1], RUNS, -1).sum(-1)).sum(-1)
        parts = np.abs(each.reshape(*each.shape[:-1], -1, RUNS).sum(-2)).sum(-1)
        worst = np.maximum(runs, parts)
        if isinstance(error, float):
            return worst
        either_way = (np.abs(each) + error >= ulp / 2) & (error > 0)
        return worst + (ulp * either_way).sum(-1)


def running_drift(terms: np.ndarray, error: Bound, totals: np.ndarray) -> np.ndarray:
    """The same for every sum of the first terms: [..., n], as ``totals``."""
    n = terms.shape[-1]
    lost = np.zeros(totals.shape)
    ends = np.linspace(0, n, RUNS + 1).astype(int)
    for begin, end in pairwise(ends):
        if end > accuracy.LONGEST_CHAIN:
            e = error if isinstance(error, float) else error[..., :end]
            whole = drift(terms[..., :end], e, totals[..., end - 1]) * totals[..., end - 1]
            with np.errstate(all="ignore"):
                lost[..., begin:end] = np.nan_to_num(whole[..., None] / totals[..., begin:end], nan=0.0, posinf=0.0)
    return lost
