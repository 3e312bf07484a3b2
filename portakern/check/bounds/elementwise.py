"""Functions of single elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.dtypes import DTYPES
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.functions import BINARY, UNARY, Unary

from .reductions import exact_sum
from .rules import dtype_of, rule
from .scores import shift_of
from .value import Accumulated, Bound, Val, any_inexact, certainly_nan, ends, extremes, finish, may_change_sign


def _sum(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    """A sum of products may have been begun with what is added to it, which then passes through all of its roundings."""
    spread = a.e + b.e
    made = None
    for total, start in ((a, b), (b, a)):
        if (s := total.sum) is None:
            continue
        if not (total.exact and start.exact and exact_sum(dtype, start.x, s.total + np.abs(start.x))):
            passed = s.length * s.unit * (np.abs(start.x) + start.e + (s.total if total.exact else 0.0))
            spread = spread + np.where(np.isnan(passed), 0.0, passed)  # of a sum of no terms nothing passes, infinite or not
        made = Accumulated(s.length if made is None else s.length + made.length, s.unit, s.total + np.abs(start.x))
    doubt = np.logical_or.reduce([np.zeros(r.shape, bool), *(v.overflown for v in (a, b) if v.overflown is not None)])
    finished = finish(dtype, r, spread, [a, b], doubt=doubt & ~certainly_nan(a, b))
    return replace(finished, sum=made, cancels=may_change_sign(finished, np.abs(a.x) + np.abs(b.x)))


def _product(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    spread: Bound = 0.0
    doubt: np.ndarray | bool = False
    if any_inexact(a, b):
        spread = np.abs(a.x) * b.e + np.abs(b.x) * a.e + a.e * b.e
        spread = np.where(np.isnan(spread) & ~np.isinf(a.e) & ~np.isinf(b.e), 0.0, spread)  # inf times no error
        doubt = _infinite_times_doubtful_zero(dtype, a, b) | _infinite_times_doubtful_zero(dtype, b, a)
    return finish(dtype, r, spread, [a, b], doubt=doubt & ~certainly_nan(a, b))


def _infinite_times_doubtful_zero(dtype: str, a: Val, b: Val) -> np.ndarray:
    return np.isinf(a.x) & b.maybe_zero(dtype) & (b.bound() > 0)


def _quotient(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    spread: Bound = 0.0
    if any_inexact(a, b):
        room = np.abs(b.x) - b.e
        spread = np.where(room > 0, (a.e + np.abs(r) * b.e) / room, np.inf)
        spread = np.where(np.isinf(b.x) & ~np.isinf(a.e), 0.0, spread)
        spread = np.where((room <= 0) & (np.asarray(b.e) == 0), 0.0, spread)  # a division by an exact zero is certain
    # Unless a zero may be divided; and a zero that is not certain decides between NaN, infinities and numbers.
    doubt = ((room_ := np.abs(b.x) <= b.bound()) & (b.bound() > 0)) | (room_ & a.maybe_zero(dtype) & (a.bound() > 0))
    return finish(dtype, r, spread, [a, b], BINARY["div"].ulps, doubt=doubt & ~certainly_nan(a, b))


def _mean(total: Val) -> Val:
    """A sum that is divided by how many terms it has.  A kernel may keep the mean and correct it by every term instead
    (Welford, Technometrics 4, 1962), also by terms that are zero, where the sum does not round.

    The k-th of n corrections, by d / k of what differs, counts for k / n in the end.  It rounds the mean so far, which is at
    most total / k, and d twice, which is at most the term and that mean: a unit of the total for all means, two for all
    terms, and two for each of the means in d, 1 / 1 + .. + 1 / n of the total if the first term is all of it."""
    s = total.sum
    if s is None:
        return total
    corrections = 3 + 2 * (np.log(np.maximum(s.count, 1)) + 1)
    length = np.maximum(accuracy.chain(s.length), np.where(np.asarray(s.count) > s.length, corrections, 0))
    e = np.where(np.isfinite(total.x), length * s.unit * s.total, 0.0)
    return replace(total, e=e if total.exact else np.maximum(total.e, e))


def _extreme(fn: str) -> Callable[[str, np.ndarray, Val, Val], Val]:
    f = np.maximum if fn == "max" else np.minimum

    def combine(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
        if not any_inexact(a, b):
            return Val(r)
        spread = np.maximum(np.abs(f(a.x + a.e, b.x + b.e) - r), np.abs(r - f(a.x - a.e, b.x - b.e)))
        return extremes(dtype, r, np.where(np.isnan(spread) & ~np.isfinite(r), 0.0, spread), [a, b])

    return combine


def _compare(op: t.Map, r: np.ndarray, a: Val, b: Val) -> Val:
    if not any_inexact(a, b):
        return Val(r)
    close = (np.abs(a.x - b.x) <= a.e + b.e) | a.open() | b.open()
    return Val(r, np.where(close & ((np.asarray(a.e) + b.e) > 0), 1.0, 0.0))


def _select(op: t.Map, r: np.ndarray, c: Val, yes: Val, no: Val) -> Val:
    e: Bound = 0.0
    if any_inexact(yes, no):
        e = np.where(c.x, yes.e, no.e)
    if not c.exact:
        other = np.where(c.x, no.e, yes.e) + np.where(yes.x == no.x, 0.0, np.abs(yes.x - no.x))
        e = np.where(np.asarray(c.e) > 0, np.maximum(e, other), e)
        e = np.where(np.isnan(e), np.inf, e)
    return Val(r, e)


def _power(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    u = accuracy.unit(dtype)
    spread: Bound = 0.0
    doubt: np.ndarray | bool = False
    if any_inexact(a, b):
        corners = [np.power(a.x + i * np.asarray(a.e), b.x + j * np.asarray(b.e)) for i in (-1, 1) for j in (-1, 1)]
        far = np.max([np.abs(c - r) for c in corners], axis=0)
        spread = np.where(np.isnan(far), np.inf, far)
        doubt = np.any([~((c == r) | (np.isnan(c) & np.isnan(r))) for c in corners], axis=0) & ~np.isfinite(r)
    steps = np.abs(b.x * np.log2(np.maximum(np.abs(a.x), 2.0**-1000)))
    argument = np.where(np.isfinite(r), 8 * u * steps * np.abs(r), 0.0)
    return finish(dtype, r, spread, [a, b], BINARY["pow"].ulps, argument, doubt)


def _remainder(dtype: str, r: np.ndarray, a: Val, b: Val) -> Val:
    """The remainder of numbers is a number (fmod is exact, and adds the divisor at most): only what is passed on counts."""
    if not any_inexact(a, b):
        return finish(dtype, r, 0.0, [a, b], BINARY["rem"].ulps)
    reach = a.e + np.where(np.asarray(b.e) > 0, np.abs(np.floor(a.x / b.x)) * b.e, 0.0)
    # Where the quotient is within its error of an integer, the remainder is near zero or near the divisor.
    corners = [np.floor((a.x + i * np.asarray(a.e)) / (b.x + j * np.asarray(b.e))) for i in (-1, 1) for j in (-1, 1)]
    near = (np.ptp(corners, axis=0) != 0) & (np.asarray(a.e) + b.e > 0)  # also where a corner is NaN
    spread = np.where(near, np.abs(b.x) + b.e, reach)
    doubt = b.maybe_zero(dtype) & (b.bound() > 0)
    return finish(dtype, r, spread, [a, b], BINARY["rem"].ulps, doubt=doubt & ~certainly_nan(a, b))


_FLOAT_BINARY: dict[str, Callable[[str, np.ndarray, Val, Val], Val]] = {
    "add": _sum, "sub": _sum, "mul": _product, "div": _quotient, "max": _extreme("max"), "min": _extreme("min"),
    "pow": _power, "rem": _remainder,
}  # fmt: skip

def _unary(op: t.Map, r: np.ndarray, v: Val) -> Val:
    f, dtype = UNARY[op.fn], dtype_of(op)
    if f.kind == "test":
        return Val(r, 0.0 if v.exact else np.where(np.isinf(v.bound()), 1.0, 0.0))
    if f.kind == "sign":
        return Val(r, v.e)
    if f.kind == "steps":
        return Val(r, ends(f.exact, v, r))
    u = accuracy.unit(dtype)
    if v.shift is not None and op.fn in ("exp", "exp2"):
        v = replace(v, e=v.e + accuracy.SCALED_FIRST * u * np.abs(v.shift))
    floor: Bound = 0.0 if dtype == "f64" else f.floor
    if f.slope is not None:
        floor = floor + np.where(np.isfinite(r), f.argument * u * f.slope(r, v.x), 0.0)
    spread = np.where(v.open(), np.inf, np.minimum(v.e, 2.0)) if f.kind == "wave" else ends(_inside(f), v, r)
    # exp of a large number that is all error: an infinity for the oracle, and 0 for a kernel that has one of the other sign.
    decided = np.isfinite(r) | (np.asarray(spread) == 0)
    return finish(dtype, r, spread, [v], f.ulps, np.asarray(floor), _undefined(f, v) | ~decided)


def _undefined(f: Unary, v: Val) -> np.ndarray | bool:
    """Where an argument may be outside of the domain, or at a pole, by its errors: what cancels may be below zero."""
    if v.exact:
        return False
    at_pole = f.pole is not None and (np.abs(v.x - f.pole) <= v.e) & (v.bound() > 0)
    if f.edge is None:
        return at_pole
    edge = v.x - f.edge
    least = 0.0 if v.cancels else -FLUSHED
    return at_pole | ((edge + v.e >= 0) & np.where(edge < 0, True, edge - v.e < least))


FLUSHED = 2.0**-106
"""More than a million of the smallest normal numbers of f32: what is flushed to zero does not change its sign, unless it is
a difference."""


def _inside(f: Unary) -> Callable[[Any], Any]:
    """``f`` with arguments that an error moved out of its domain put back on its edge."""
    edge = f.edge
    return f.exact if edge is None else lambda x: f.exact(np.maximum(x, edge))


@rule(t.Map)
def _(op: t.Map, *values: Val) -> Val:
    r = oracle.apply(op, [v.x for v in values])
    if op.fn == "select":
        return _select(op, r, *values)
    if op.fn in t.COMPARE:
        return _compare(op, r, *values)
    kind = DTYPES[dtype_of(op)].kind if op.fn != "isnan" else "float"
    if kind != "float":
        e = _exact_kind(op, r, values)
        by_zero = op.fn in ("rem", "floordiv") and (values[1].x == 0)  # not said, for integers
        return Val(r, np.where(by_zero, np.inf, e) if np.any(by_zero) else e)
    if len(values) == 1:
        return _unary(op, r, values[0])
    if op.fn == "div" and isinstance(op.args[1], t.DimSize):
        values = (_mean(values[0]), values[1])
    found = _FLOAT_BINARY[op.fn](dtype_of(op), r, *values)
    return replace(found, shift=shift_of(op, values[1].x)) if op.fn == "sub" else found


def _exact_kind(op: t.Map, r: np.ndarray, values: Sequence[Val]) -> Bound:
    """Integers and booleans: no rounding of their own; uncertain where an operand is and it matters."""
    if not any_inexact(*values):
        return 0.0
    if r.dtype.kind == "b" and op.fn in ("and", "or") and len(values) == 2:
        a, b = values
        decided = [np.asarray(v.e) == 0 for v in values]
        settles = np.zeros if op.fn == "and" else np.ones
        fixed = (decided[0] & (a.x == settles((), bool))) | (decided[1] & (b.x == settles((), bool)))
        return np.where(fixed | (decided[0] & decided[1]), 0.0, 1.0)
    if op.fn in ("add", "sub"):
        return values[0].e + values[1].e
    doubt = np.broadcast_to(sum(np.asarray(v.e) for v in values), r.shape) > 0
    return np.where(doubt, 1.0 if r.dtype.kind == "b" else np.inf, 0.0)
