"""Sums, products, extremes and their places, over axes, along one, and in windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg

from .drift import drift, running_drift
from .rules import RULES, dtype_of, rule
from .value import Accumulated, Bound, Choice, Val, finish


def whole(x: np.ndarray) -> int | None:
    """A power of two that makes every element a whole number, if a small one does."""
    for shift in (0, 12):
        scaled = x.reshape(-1)[:64] * 2.0**shift
        if np.all(np.rint(scaled) == scaled) and np.all(np.isfinite(x)):
            scaled = x * 2.0**shift
            if np.all(np.rint(scaled) == scaled):
                return shift
    return None


def exact_sum(dtype: str, x: np.ndarray, total: np.ndarray) -> bool:
    """Whether sums of ``x``, whose magnitudes sum to ``total``, are exact in any order."""
    if dtype == "f64" or not total.size or not float(total.max(initial=0)) < 2.0**24:
        return False
    shift = whole(x)
    return shift is not None and float(total.max(initial=0)) * 2.0**shift < 2.0**24


@rule(t.Fold)
def _(op: t.Fold, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    dtype = dtype_of(op)
    if op.fn in ("any", "all"):
        return Val(r, _fold_truth(op, v))
    if r.dtype.kind != "f":
        return Val(r, _of_integers(op.fn, v, lambda x: np.add.reduce(x, op.axes)))
    n = int(np.prod([v.x.shape[a] for a in op.axes], dtype=np.int64))
    if op.fn in ("max", "min"):
        return _fold_extreme(op, v, r)
    if op.fn == "sum":
        return _summed(dtype, r, v, n, lambda x: np.add.reduce(x, op.axes), lambda total: _drift(op.axes, v, total))
    return multiplied(dtype, r, v, n, lambda x: np.multiply.reduce(x, op.axes))


def _of_integers(fn: str, v: Val, add: Callable[[np.ndarray], np.ndarray]) -> Bound:
    """What a reduction, which ``add`` does as sums, takes over from integers that a rounding decides."""
    if v.exact:
        return 0.0
    total = add(v.bound())
    return np.where(total > 0, np.inf, 0.0) if fn == "prod" else total


def multiplied(dtype: str, r: np.ndarray, v: Val, n: Any, multiply: Callable[[np.ndarray], np.ndarray]) -> Val:
    """Products ``r`` of ``n`` elements of ``v``; ``multiply`` multiplies an array as the operation does."""
    size = multiply(np.abs(v.x) + v.e)
    spread = size - np.abs(r) + n * accuracy.unit(dtype) * size
    # A part of the product may leave the range though the whole does not; a zero in it then gives NaN, or the part is lost.
    magnitude = np.where(np.isfinite(v.x), np.abs(v.x) + v.e, 1.0)
    zero, infinite = (v.x == 0) & (v.bound() == 0), np.isinf(v.x)
    large = multiply(np.maximum(magnitude, 1.0)) >= accuracy.largest("f64" if dtype == "f64" else "f32")
    least = np.where(zero, 1.0, np.clip(np.abs(v.x) - v.e, 0.0, 1.0))
    small = multiply(np.where(infinite, 1.0, least)) <= accuracy.smallest_normal(dtype)
    some_zero, some_infinite = (multiply(np.where(m, 0.0, 1.0)) == 0 for m in (zero, infinite))
    doubt = (large & (some_zero | small | some_infinite | np.isfinite(r))) | (small & ~some_zero) | _any(v.open(), multiply)
    certain = _any(np.isnan(v.x) & ~v.open(), multiply) | (some_zero & some_infinite)
    return finish(dtype, r, np.where(np.isnan(spread), 0.0, spread), [], doubt=doubt & ~certain)


def _any(mask: np.ndarray, multiply: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return multiply(np.where(mask, 0.0, 1.0)) == 0


def _summed(
    dtype: str,
    r: np.ndarray,
    v: Val,
    n: Any,
    add: Callable[[np.ndarray], np.ndarray],
    drifted: Callable[[np.ndarray], np.ndarray],
) -> Val:
    """Sums ``r`` of ``n`` elements of ``v`` (a number, or one per sum).

    ``add`` sums an array as the operation does, ``drifted`` gives the drift of sums whose terms' magnitudes have the given sum.
    """
    total = add(np.abs(v.x))
    terms = _terms(n, v, add)
    made = Accumulated(terms, accuracy.unit(dtype), total, n)
    if v.exact and exact_sum(dtype, v.x, total):
        return replace(finish(dtype, r, 0.0, []), sum=made)
    passed = 0.0 if v.exact else add(v.bound())
    length = roundings(dtype, n, terms, lambda: drifted(total))
    spread = passed + length * accuracy.unit(dtype) * (total + passed)
    spread = np.where(np.isnan(spread) | np.isinf(spread), np.where(np.isinf(passed), np.inf, 0.0), spread)
    # Partial sums may overflow where the sum does not, and meet the other infinity.
    finite = np.isfinite(v.x)
    reach = total if finite.all() else add(np.where(finite, np.abs(v.x), 0.0))
    over = reach >= accuracy.largest("f64" if dtype == "f64" else "f32")
    if v.overflown is not None:
        over = over | (add(v.overflown.astype(np.float64)) > 0)
    certain = add((np.isnan(v.x) & ~v.open()).astype(np.float64)) > 0
    doubt = (over | (add(v.open().astype(np.float64)) > 0)) & ~certain
    return replace(finish(dtype, r, spread, [], doubt=doubt), sum=made)


def roundings(dtype: str, n: Any, terms: Any, drifted: Callable[[], Any]) -> Any:
    """How many roundings one element of a sum of ``n`` elements, of which ``terms`` are not zero, may pass through.

    ``drifted`` gives what terms that are rounded alike add to that in long sums.
    """
    if dtype == "f64" or np.max(terms, initial=0) <= accuracy.LONGEST_CHAIN:
        return terms
    return np.minimum(terms, accuracy.chain(n) + drifted())


def _terms(n: Any, v: Val, add: Callable[[np.ndarray], np.ndarray]) -> Any:
    """How many terms are not zero, since adding zero is exact; per element of the sum where that helps."""
    if not v.exact or np.max(n, initial=0) < 64 or v.nonzeros * 4 > v.x.size:
        return n
    return add((v.x != 0).astype(np.float64))


def _drift(axes: tuple[int, ...], v: Val, total: np.ndarray) -> np.ndarray:
    def flat(x: np.ndarray) -> np.ndarray:
        summed = math.prod(x.shape[a] for a in axes)
        return np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*total.shape, summed)

    return drift(flat(v.x), 0.0 if v.exact else flat(v.bound()), total)


def _running_drift(op: t.Cumulate, v: Val, totals: np.ndarray) -> np.ndarray:
    def ordered(x: np.ndarray) -> np.ndarray:
        return np.moveaxis(np.flip(x, op.axis) if op.reverse else x, op.axis, -1)

    found = running_drift(ordered(v.x), 0.0 if v.exact else ordered(v.bound()), ordered(totals))
    found = np.moveaxis(found, -1, op.axis)
    return np.flip(found, op.axis) if op.reverse else found


def _fold_extreme(op: t.Fold, v: Val, r: np.ndarray) -> Val:
    if v.exact:
        return Val(r)
    high, low = oracle.fold(op.fn, v.x + v.e, op.axes), oracle.fold(op.fn, v.x - v.e, op.axes)
    spread = np.where(high == low, 0.0, np.maximum(np.abs(high - r), np.abs(r - low)))
    return Val(r, _with_open(spread, r, np.logical_or.reduce(v.open(), op.axes), np.logical_or.reduce(_sure_nan(v), op.axes)))


def _sure_nan(v: Val) -> np.ndarray:
    return np.isnan(v.x) & ~v.open()


def _with_open(spread: np.ndarray, r: np.ndarray, some_open: np.ndarray, some_nan: np.ndarray) -> np.ndarray:
    """The bound of an extreme: NaN among the elements is certain or it is not, and then anything goes."""
    spread = np.where(np.isnan(spread), 0.0, spread)
    return np.where(some_nan, 0.0, np.where(some_open, np.inf, spread))


def _fold_truth(op: t.Fold, v: Val) -> Bound:
    if v.exact:
        return 0.0
    sure = v.bound() == 0
    settled = np.logical_or.reduce(sure & (v.x if op.fn == "any" else ~v.x), op.axes)
    return np.where(settled | np.logical_and.reduce(sure, op.axes), 0.0, 1.0)


@rule(t.ArgFold)
def _(op: t.ArgFold, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    if not v.x.size:  # of no elements none is the largest
        return Val(r, np.full(r.shape, np.inf) if r.size else 0.0)
    if v.exact:
        return Val(r)
    lost = v.open().any(op.axis)  # what may be NaN may be it
    sign = 1.0 if op.fn == "max" else -1.0
    x = np.where(np.isnan(v.x), np.inf, sign * v.x)  # NaN is the extreme, as it is of max and min
    low, high = np.where(v.open(), -np.inf, x - v.e), np.where(v.open(), np.inf, x + v.e)
    need = np.where(lost, -np.inf, low.max(op.axis))
    choice = Choice(op.axis, low, high, need, np.full(need.shape, np.inf))
    several = np.add.reduce(high >= np.expand_dims(need, op.axis), op.axis) > 1
    return Val(r, np.where(several | lost, np.inf, 0.0), choice)


@rule(t.Cumulate)
def _(op: t.Cumulate, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    dtype = dtype_of(op)
    if op.fn in ("max", "min"):
        if v.exact:
            return Val(r)
        high, low = oracle.cumulate(op, v.x + v.e), oracle.cumulate(op, v.x - v.e)
        spread = np.where(high == low, 0.0, np.maximum(np.abs(high - r), np.abs(r - low)))
        seen = replace(op, fn="sum")
        some_open, some_nan = (oracle.cumulate(seen, m.astype(np.float64)) > 0 for m in (v.open(), _sure_nan(v)))
        return Val(r, _with_open(spread, r, some_open, some_nan))
    if r.dtype.kind != "f":
        return Val(r, _of_integers(op.fn, v, lambda x: oracle.cumulate(replace(op, fn="sum"), x)))
    # Each sum is of as many elements as have been seen: so few roundings may they pass through.
    n = oracle.cumulate(replace(op, fn="sum"), np.ones(v.x.shape)).astype(np.int64)
    if op.fn == "sum":
        return _summed(dtype, r, v, n, lambda x: oracle.cumulate(op, x), lambda totals: _running_drift(op, v, totals))
    return multiplied(dtype, r, v, n, lambda x: oracle.cumulate(op, x))


@rule(t.WindowFold)
def _(op: t.WindowFold, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    if r.dtype.kind != "f":
        return Val(r, 0.0 if v.exact else np.inf)
    axes = tuple(range(v.x.ndim, 2 * v.x.ndim))
    cut = oracle.windows(op, v.x, oracle.identity(op.fn, v.x.dtype))
    bound = 0.0 if v.exact else oracle.windows(op, v.bound(), 0.0)
    flat = t.Fold(op.fn, Arg("window", t.TensorType(cut.shape, dtype_of(op))), axes)
    return RULES[t.Fold](flat, Val(cut, bound))
