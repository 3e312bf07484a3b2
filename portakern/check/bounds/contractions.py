"""Sums of products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.tensor import tensor_type

from .reductions import exact_sum, whole
from .rules import rule
from .value import Accumulated, Bound, Val, any_inexact, finish


def _contraction(
    op: t.Contract | t.Convolve, a: Val, b: Val, n: int, precision: str, times: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Val:
    """Sums of ``n`` products; ``times`` contracts two arrays."""
    r = oracle.apply(op, [a.x, b.x])
    if r.dtype.kind != "f":
        return Val(r)
    size_a, size_b = np.abs(a.x), np.abs(b.x)
    total = times(size_a, size_b)
    operand = tensor_type(op.operands[0]).dtype
    if not any_inexact(a, b) and precision == "ieee" and whole(a.x) == 0 and exact_sum(op.dtype, b.x, total):
        unit = accuracy.accumulation_unit(operand, op.dtype, precision)
        return replace(finish(op.dtype, r, 0.0, []), sum=Accumulated(accuracy.chain(n), unit, total))
    passed: Bound = 0.0
    if not a.exact:
        passed = passed + times(a.bound(), size_b)
    if not b.exact:
        passed = passed + times(size_a + a.e, b.bound())
    length: Any = accuracy.chain(n)
    if n >= 64 and any(v.exact and np.count_nonzero(v.x) * 4 <= v.x.size for v in (a, b)):
        length = np.minimum(times(_terms(a), _terms(b)), length)
    unit = accuracy.accumulation_unit(operand, op.dtype, precision)
    each = length * unit
    each = each + accuracy.PRODUCT_UNIT[precision] + accuracy.unit(op.dtype)
    spread = passed + each * (total + passed) + n * accuracy.smallest_normal(op.dtype)
    spread = np.where(np.isnan(spread), np.where(np.isfinite(r), np.inf, 0.0), spread)
    doubt = _undecided(a, b, total, accuracy.largest("f64" if op.dtype == "f64" else "f32"), times)
    return replace(finish(op.dtype, r, spread, [], doubt=doubt), sum=Accumulated(length, unit, total))


def _terms(v: Val) -> np.ndarray:
    """1 where ``v`` may be other than zero."""
    return ((v.x != 0) | (np.asarray(v.e) > 0)).astype(np.float64)


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

    bad_a, bad_b = ~np.isfinite(a.x), ~np.isfinite(b.x)
    if not (bad_a.any() or bad_b.any() or a.open().any() or b.open().any()):
        return total >= top
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
    return _contraction(op, a, b, n, op.precision, lambda x, y: oracle.contract(op, x, y))


@rule(t.Convolve)
def _(op: t.Convolve, a: Val, b: Val) -> Val:
    n = int(np.prod(b.x.shape[:-1], dtype=np.int64))
    return _contraction(op, a, b, n, "ieee", lambda x, y: oracle.convolve(op, x, y))
