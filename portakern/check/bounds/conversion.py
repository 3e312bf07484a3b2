"""Conversions, which round on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from portakern.dtypes import DTYPES
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.tensor import tensor_type

from .free import may_be_left_out
from .rules import RULES, rule
from .value import Val, ends, extremes, finish


@rule(t.Convert)
def _(op: t.Convert, v: Val) -> Val:
    r = oracle.apply(op, [v.x])
    to, have = DTYPES[op.dtype], DTYPES[tensor_type(op.x).dtype]
    if to.is_float and have.is_float and (to.bits > have.bits or to.name == have.name):
        return replace(v, x=r)  # widening
    if to.is_float and not have.is_float:
        return finish(op.dtype, v.x.astype(np.float64), v.e, [v])
    near = _by_way_of_f32(v) if to.is_float and have.name == "f64" and to.bits < 32 else v
    spread = ends(lambda x: oracle.RULES[t.Convert](op, np.asarray(x)).astype(np.float64), near, r.astype(np.float64))
    if to.is_float and may_be_left_out(op) and to.bits < have.bits:
        unrounded = np.where(np.isfinite(r), np.abs(r - v.x), 0.0) + v.bound()
        return Val(r, np.maximum(spread, unrounded))
    if to.is_float:
        return Val(r, spread)
    if v.x.dtype.kind != "f":
        return Val(r, 0.0 if v.exact else np.where(v.bound() > 0, np.inf, 0.0))
    if to.kind == "bool":  # false at zero alone, which may lie inside the bound though both its ends are true
        doubtful = (v.bound() > 0) & (np.abs(v.x) <= v.bound())
        return Val(r, np.where(doubtful, np.inf, 0.0) if doubtful.any() else 0.0)
    limit = 2.0 ** (to.bits - (to.kind == "int"))  # what does not fit is undefined
    outside = ~(np.abs(v.x) < limit) if to.kind == "int" else ~((v.x > -1) & (v.x < limit))
    return Val(r, np.where(outside, np.inf, spread) if outside.any() else spread)


def _by_way_of_f32(v: Val) -> Val:
    """``v`` as far as it may be from itself where doubles become narrow floats in two steps, as in PyTorch."""
    return replace(v, e=v.bound() + np.where(np.isfinite(v.x), DTYPES["f32"].rounding * np.abs(v.x), 0.0))


def rounded_at_some_scale(op: t.Convert, v: Val) -> Val:
    to = DTYPES[op.dtype]
    if not to.is_float or v.exact or to.bits >= DTYPES[tensor_type(op.x).dtype].bits:
        return RULES[t.Convert](op, v)
    e = v.bound() + to.rounding * (np.abs(v.x) + v.e) + to.smallest / 2
    return extremes(op.dtype, v.x, np.where(np.isfinite(v.x), e, v.bound()), [v])
