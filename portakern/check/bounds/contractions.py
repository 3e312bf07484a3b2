"""Sums of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.tensor import tensor_type

from .reductions import exact_sum, whole
from .rules import rule
from .value import Bound, Val, any_inexact, finish


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
        return finish(op.dtype, r, 0.0, [])
    passed: Bound = 0.0
    if not a.exact:
        passed = passed + times(a.bound(), size_b)
    if not b.exact:
        passed = passed + times(size_a + a.e, b.bound())
    length: Any = accuracy.chain(n)
    if n >= 64 and any(v.exact and np.count_nonzero(v.x) * 4 <= v.x.size for v in (a, b)):
        length = np.minimum(times(_terms(a), _terms(b)), length)
    each = length * accuracy.accumulation_unit(operand, op.dtype, precision)
    each = each + accuracy.PRODUCT_UNIT[precision] + accuracy.unit(op.dtype)
    spread = passed + each * (total + passed) + n * accuracy.smallest_normal(op.dtype)
    spread = np.where(np.isnan(spread), np.where(np.isfinite(r), np.inf, 0.0), spread)
    top = accuracy.largest("f64" if op.dtype == "f64" else "f32")
    spread = np.where(np.isfinite(r) & (total >= top), np.inf, spread)
    skippable = _zero_times_nonfinite(a, b, times)
    if skippable is not None:
        r, spread = np.where(skippable, 0.0, r), np.where(skippable, np.inf, spread)
    return finish(op.dtype, r, spread, [Val(r, np.asarray(passed) + 0 * r if not isinstance(passed, float) else 0.0)])


def _terms(v: Val) -> np.ndarray:
    """1 where ``v`` may be other than zero."""
    return ((v.x != 0) | (np.asarray(v.e) > 0)).astype(np.float64)


def _zero_times_nonfinite(a: Val, b: Val, times: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray | None:
    """Where a sum is not finite only for products of NaN or infinity with what is or may be zero.

    These may be skipped: a causal attention kernel leaves out whole blocks of zero weights, whatever the values there
    are.  And a weight that underflows in one order of rounding and not in another makes NaN or infinity.
    """
    bad_a, bad_b = ~np.isfinite(a.x), ~np.isfinite(b.x)
    if not (bad_a.any() or bad_b.any()):
        return None
    sure_a, sure_b = _surely_not_zero(a), _surely_not_zero(b)

    def count(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return times(x.astype(np.float64), y.astype(np.float64))

    doubtful = count(bad_a, ~sure_b) + count(~sure_a, bad_b) > 0
    certain_nan = count(np.isnan(a.x), sure_b) + count(sure_a, np.isnan(b.x)) > 0
    return doubtful & ~certain_nan


def _surely_not_zero(v: Val) -> np.ndarray:
    return ~(np.abs(v.x) <= np.asarray(v.e) + accuracy.smallest_normal("f32") * (not v.exact))


@rule(t.Contract)
def _(op: t.Contract, a: Val, b: Val) -> Val:
    n = int(np.prod([a.x.shape[i] for i in op.lhs_axes], dtype=np.int64))
    return _contraction(op, a, b, n, op.precision, lambda x, y: oracle.contract(op, x, y))


@rule(t.Convolve)
def _(op: t.Convolve, a: Val, b: Val) -> Val:
    n = int(np.prod(b.x.shape[:-1], dtype=np.int64))
    return _contraction(op, a, b, n, "ieee", lambda x, y: oracle.convolve(op, x, y))
