"""Operations that make or move elements: constants, views, parts joined, elements fetched, spread and sorted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from portakern.check import accuracy
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Op, Result

from .reductions import exact_sum, multiplied
from .rules import dtype_of, rule
from .value import Accumulated, Bound, Choice, Val, any_inexact, finish


@rule(t.DimSize, t.Iota)
def _(op: Op) -> Val:
    x = oracle.apply(op, [])
    return finish(dtype_of(op), x, 0.0, []) if x.dtype.kind == "f" else Val(x)


@rule(t.Literal)
def _(op: t.Literal) -> Val:
    x = oracle.apply(op, [])
    return finish(op.dtype, x, 0.0, []) if x.dtype.kind == "f" else Val(x)


@rule(t.RandomBits)
def _(op: t.RandomBits, seed: Val) -> Val:
    return Val(oracle.apply(op, [seed.x]))


@rule(t.Expand, t.Reshape, t.Transpose, t.Slice, t.Flip, t.Windows)
def _(op: Op, v: Val) -> Val:
    def moved(x: np.ndarray) -> np.ndarray:
        return oracle.RULES[type(op)](op, x)

    r = oracle.apply(op, [v.x])
    over = None if v.overflown is None else moved(v.overflown)
    made = v.sum and Accumulated(moved(np.broadcast_to(v.sum.length, v.x.shape)), v.sum.unit, moved(v.sum.total),
                                 moved(np.broadcast_to(v.sum.count, v.x.shape)))  # fmt: skip
    return Val(r, v.e if v.exact else moved(v.bound()), sum=made, overflown=over)


@rule(t.PadWith)
def _(op: t.PadWith, v: Val) -> Val:
    return Val(oracle.apply(op, [v.x]), 0.0 if v.exact else oracle.RULES[t.PadWith](replace(op, value=0.0), v.bound()))


@rule(t.Concat)
def _(op: t.Concat, *parts: Val) -> Val:
    bound = np.concatenate([p.bound() for p in parts], op.axis) if any_inexact(*parts) else 0.0
    return Val(oracle.apply(op, [p.x for p in parts]), bound)


@rule(t.Assemble)
def _(op: t.Assemble, *parts: Val) -> Val:
    bound: Bound = 0.0
    if any_inexact(*parts):
        bound = oracle.RULES[t.Assemble](replace(op, fill=0.0), *(np.broadcast_to(p.bound(), p.x.shape) for p in parts))
    return Val(oracle.apply(op, [p.x for p in parts]), bound)


@rule(Result)
def _(op: Result, several: tuple[Val, ...]) -> Val:
    return several[op.index]


@rule(t.BitConvert)
def _(op: t.BitConvert, v: Val) -> Val:
    return Val(oracle.apply(op, [v.x]), 0.0 if v.exact else np.where(v.bound() > 0, np.inf, 0.0))


@rule(t.Gather)
def _(op: t.Gather, v: Val, indices: Val) -> Val:
    r = oracle.apply(op, [v.x, indices.x])
    e: Bound = 0.0
    if not v.exact:
        e = oracle.RULES[t.Gather](replace(op, fill=0), v.bound(), indices.x)
    if not indices.exact:
        doubt = indices.bound() > 0
        if not op.zipped:
            doubt = doubt.reshape(*[1] * op.axis, *doubt.shape, *[1] * (v.x.ndim - op.axis - 1))
        e = np.where(np.broadcast_to(doubt, r.shape), np.inf, e)
    return Val(r, e)


@rule(t.Scatter)
def _(op: t.Scatter, v: Val, indices: Val, updates: Val) -> Val:
    r = oracle.apply(op, [v.x, indices.x, updates.x])
    if np.any(indices.bound() > 0):
        return Val(r, np.full(r.shape, np.inf))
    if op.mode == "mul":
        return _scattered_products(op, r, v, indices.x, updates)
    if op.mode != "add":
        e = oracle.scatter(replace(op, mode="max"), v.bound().copy(), indices.x, updates.bound())
        return Val(r, 0.0 if not e.any() else e)
    if r.dtype.kind != "f":
        return Val(r, 0.0 if not any_inexact(v, updates) else np.inf)
    total = oracle.scatter(op, np.abs(v.x), indices.x, np.abs(updates.x))
    passed = oracle.scatter(op, v.bound().copy(), indices.x, updates.bound())
    n = oracle.scatter(op, np.zeros(r.shape), indices.x, np.ones(updates.x.shape))
    most = total if v.sum is None else total + v.sum.total
    if not passed.any() and exact_sum(dtype_of(op), np.concatenate([v.x.ravel(), updates.x.ravel()]), most):
        return finish(dtype_of(op), r, 0.0, [])
    spread = passed + n * accuracy.unit(dtype_of(op)) * (total + passed)
    if (s := v.sum) is not None:  # it may have been begun with the updates, as with anything that is added to it
        start = total - np.abs(v.x) + passed + (s.total if v.exact else 0.0)
        spread = spread + np.where(n > 0, s.length * s.unit * start, 0.0)
    return finish(dtype_of(op), r, spread, [], doubt=np.isinf(passed))


def _scattered_products(op: t.Scatter, r: np.ndarray, v: Val, indices: np.ndarray, updates: Val) -> Val:
    if r.dtype.kind != "f":
        return Val(r, 0.0 if not any_inexact(v, updates) else np.inf)

    def multiply(x: np.ndarray) -> np.ndarray:
        return oracle.scatter(op, x[: v.x.size].reshape(v.x.shape), indices, x[v.x.size :].reshape(updates.x.shape))

    ones = oracle.scatter(replace(op, mode="add"), np.ones(r.shape), indices, np.ones(updates.x.shape))
    both, bounds = (np.concatenate([a.ravel(), b.ravel()]) for a, b in ((v.x, updates.x), (v.bound(), updates.bound())))
    every = Val(both, bounds)
    return multiplied(dtype_of(op), r, every, ones, multiply)


@rule(t.KeySort)
def _(op: t.KeySort, *xs: Val) -> Val:
    moved = xs[op.number]
    r = oracle.apply(op, [x.x for x in xs])
    if np.any(xs[0].bound() > 0):
        return Val(r, np.full(r.shape, np.inf))
    bounds = (x.bound() if n and x is moved else x.x for n, x in enumerate(xs))
    return Val(r) if moved.exact else Val(r, oracle.apply(op, list(bounds)))


@rule(t.Sort)
def _(op: t.Sort, v: Val) -> tuple[Val, Val]:
    values, order = oracle.apply(op, [v.x])
    lost = v.open().any(op.axis, keepdims=True)
    if lost.any():  # what may be NaN may stand anywhere
        e = np.broadcast_to(np.where(lost, np.inf, np.max(v.bound(), axis=op.axis, keepdims=True)), values.shape)
        return Val(values, e), Val(order, np.where(e > 0, np.inf, 0.0))
    if v.exact:
        return Val(values), Val(order)
    worst = np.max(v.bound(), axis=op.axis, keepdims=True, initial=0.0)
    e = np.where(np.isnan(values), 0.0, worst)
    x, sorted_ = (np.where(np.isnan(a), np.inf, a) for a in (v.x, values))  # NaN is the largest
    choice = Choice(op.axis, x - v.e, x + v.e, sorted_ - e, sorted_ + e)
    return Val(values, e), Val(order, np.where(e > 0, np.inf, 0.0), choice)
