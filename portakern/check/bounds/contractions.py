"""Sums of products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.tensor import tensor_type

from .drift import drift
from .reductions import exact_sum, roundings, whole
from .rules import rule
from .value import Accumulated, Bound, Val, any_inexact, finish


def _contraction(
    op: t.Contract | t.SegmentContract | t.Convolve,
    a: Val,
    b: Val,
    n: int,
    precision: str,
    times: Callable[[np.ndarray, np.ndarray], np.ndarray],
    drifted: Callable[[np.ndarray], np.ndarray | float],
    others: Sequence[np.ndarray] = (),
) -> Val:
    """Sums of ``n`` products.

    ``times`` contracts two arrays, ``drifted`` gives the drift of sums whose terms' magnitudes have the given sum; ``others``
    are further operands.
    """
    r = oracle.apply(op, [a.x, b.x, *others])
    if r.dtype.kind != "f":
        return Val(r, _passed_by_integers(a, b, times) if any_inexact(a, b) else 0.0)
    size_a, size_b = a.sizes(), b.sizes()
    total = times(size_a, size_b)
    unit = accuracy.accumulation_unit(tensor_type(op.operands[0]).dtype, op.dtype, precision)
    terms = _terms(a, b, n, times)
    made = Accumulated(terms, unit, total)
    if not any_inexact(a, b) and precision == "ieee" and whole(a.x) == 0 and exact_sum(op.dtype, b.x, total):
        return replace(finish(op.dtype, r, 0.0, []), sum=made)
    passed: Bound = 0.0
    if not a.exact:
        passed = passed + times(a.bound(), size_b)
    if not b.exact:
        passed = passed + times(size_a + a.e, b.bound())
    each = roundings(op.dtype, n, terms, lambda: drifted(total)) * unit
    each = each + accuracy.PRODUCT_UNIT[precision] + accuracy.unit(op.dtype)
    spread = passed + each * (total + passed) + n * accuracy.smallest_normal(op.dtype)
    spread = np.where(np.isnan(spread), np.where(np.isfinite(r), np.inf, 0.0), spread)
    doubt = _undecided(a, b, total, accuracy.largest("f64" if op.dtype == "f64" else "f32"), times)
    return replace(finish(op.dtype, r, spread, [], doubt=doubt), sum=made)


def _passed_by_integers(a: Val, b: Val, times: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """What sums of products take over from integers that a rounding decides; they have no rounding of their own."""
    sizes = [np.abs(v.x.astype(np.float64)) for v in (a, b)]
    with np.errstate(invalid="ignore"):  # nothing known times zero
        found = times(a.bound(), sizes[1]) + times(sizes[0] + a.bound(), b.bound())
    return np.where(np.isnan(found), np.inf, found)


def _terms(a: Val, b: Val, n: int, times: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Any:
    """How many products are not zero, since adding zero is exact; per element where that helps."""
    if n < 64 or not any(v.exact and v.nonzeros * 4 <= v.x.size for v in (a, b)):
        return n
    return times(*(((v.x != 0) | (np.asarray(v.e) > 0)).astype(np.float64) for v in (a, b)))


def _undecided(
    a: Val, b: Val, total: np.ndarray, top: float, times: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Where a sum may be NaN, infinite or a number by what is not decided in its terms.

    Products of NaN or infinity with what is or may be zero may be skipped: a causal attention kernel leaves out whole blocks
    of zero weights, whatever the values there are.  And a weight that underflows in one order of rounding and not in another
    makes NaN or infinity.  A term of which nothing is known leaves nothing known of the sum, however infinite the others are,
    and partial sums may overflow where the sum does not.
    """

    def count(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return times(x.astype(np.float64), y.astype(np.float64))

    if a.finite and b.finite and not (a.any_open or b.any_open):
        return total >= top
    bad_a, bad_b = ~np.isfinite(a.x), ~np.isfinite(b.x)
    sure_a, sure_b = _surely_not_zero(a), _surely_not_zero(b)
    doubtful = count(bad_a, ~sure_b) + count(~sure_a, bad_b) > 0
    doubtful |= count(a.open(), np.ones(b.x.shape)) + count(np.ones(a.x.shape), b.open()) > 0
    doubtful |= times(np.where(bad_a, 0.0, np.abs(a.x)), np.where(bad_b, 0.0, np.abs(b.x))) >= top
    nan_a, nan_b = np.isnan(a.x) & ~a.open(), np.isnan(b.x) & ~b.open()
    return doubtful & ~(count(nan_a, sure_b) + count(sure_a, nan_b) > 0)


def _surely_not_zero(v: Val) -> np.ndarray:
    return ~v.maybe_zero("f32") & ~v.open()


@rule(t.Contract)
def _(op: t.Contract, a: Val, b: Val) -> Val:
    n = int(np.prod([a.x.shape[i] for i in op.lhs_axes], dtype=np.int64))
    return _contraction(
        op, a, b, n, op.precision, lambda x, y: oracle.contract(op, x, y), lambda total: _drift(op, a, b, n, total)
    )


@rule(t.SegmentContract)
def _(op: t.SegmentContract, a: Val, b: Val, groups: Val) -> Val:
    if np.any(groups.bound() > 0):  # any row may be of any group
        r = oracle.apply(op, [a.x, b.x, groups.x])
        return Val(r, np.full(r.shape, np.inf))
    rows, n = oracle.rows_of_groups(op, groups.x), a.x.shape[1]
    # As of convolutions, all roundings are granted: the drift of sums is not worth finding out group by group.
    return _contraction(
        op, a, b, n, op.precision, lambda x, y: oracle.grouped_product(x, y, rows), lambda total: n, [groups.x]
    )


@rule(t.Convolve)
def _(op: t.Convolve, a: Val, b: Val) -> Val:
    n = int(np.prod(b.x.shape[:-1], dtype=np.int64))
    # Windows are short: the drift of their sums is not worth finding out, and all roundings are granted.
    return _contraction(op, a, b, n, "ieee", lambda x, y: oracle.convolve(op, x, y), lambda total: n)


MOST_TERMS = 1 << 23
"""Of larger contractions some elements, spread over all of them, speak for the drift of the others."""


def _drift(op: t.Contract, a: Val, b: Val, n: int, total: np.ndarray) -> np.ndarray | float:
    """The drift of every element: of its terms, which are formed one row of ``a`` at a time."""
    left, right = _rows(a, op.lhs_batch, op.lhs_free, op.lhs_axes), _rows(b, op.rhs_batch, op.rhs_free, op.rhs_axes)
    sizes = (*left.x.shape[:2], right.x.shape[1])
    batches, rows, columns = _some(sizes, MOST_TERMS // n)
    totals = total.reshape(sizes)[np.ix_(batches, rows, columns)]
    found = np.zeros(totals.shape)
    for (i, batch), (j, row) in product(enumerate(batches), enumerate(rows)):
        x, y = (Val(v.x[batch, at], 0.0 if v.exact else v.e[batch, at]) for v, at in ((left, row), (right, columns)))
        error = 0.0 if x.exact and y.exact else np.abs(x.x) * y.e + (np.abs(y.x) + y.e) * x.e
        found[i, j] = drift(x.x * y.x, error, totals[i, j])
    return found.reshape(total.shape) if found.size == total.size else found.max(initial=0.0)


def _rows(v: Val, batch: Sequence[int], free: Sequence[int], axes: Sequence[int]) -> Val:
    """``v`` as [batch, free, terms]."""

    def flat(x: np.ndarray) -> np.ndarray:
        ordered = x.transpose(*batch, *free, *axes)
        ends = (0, len(batch), len(batch) + len(free), x.ndim)
        return ordered.reshape([prod(ordered.shape[i:j]) for i, j in pairwise(ends)])

    return Val(flat(v.x), 0.0 if v.exact else flat(v.bound()))


def _some(sizes: Sequence[int], most: int) -> list[np.ndarray]:
    """Indices along every dim, evenly spread, so that no more than ``most`` elements are meant."""
    many = list(sizes)
    while prod(many) > max(most, 1):
        largest = many.index(max(many))
        many[largest] = -(-many[largest] // 2)
    return [np.linspace(0, size - 1, count).astype(int) for size, count in zip(sizes, many, strict=True)]
