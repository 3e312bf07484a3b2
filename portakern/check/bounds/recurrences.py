"""Scans by functions of the operator's own, whose neighbours kernels join in any grouping."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from portakern.check import accuracy
from portakern.ir import tensor as t
from portakern.ir.core import Block
from portakern.ir.tensor import tensor_type

from .blocks import apply_block
from .rules import rule
from .value import Val

Elements = tuple[Val, ...]
Join = Callable[[Elements, Elements], Elements]

CHOOSING = {"max", "min", "select", "and", "or", "not", "lt", "le", "gt", "ge", "eq", "ne"}
"""Functions that give one of their operands, so that an infinity among them is one element as any other."""


@rule(t.AssociativeScan)
def _(op: t.AssociativeScan, *xs: Val) -> Val:
    """Between one element after the other and neighbours in pairs of pairs lies every grouping: the errors of both extremes
    together bound it, where every element may have been rounded on its way as often as such a grouping is deep.  What is
    not finite may or may not meet what undoes it (0 times infinity), which leaves open all that has seen it, but where both
    are NaN as one of the elements is."""
    joins: dict[tuple[int, ...], Block] = {}

    def join(left: Elements, right: Elements) -> Elements:
        shape = left[0].x.shape
        if shape not in joins:
            joins[shape] = t.of_arrays(op.join, shape)
        return tuple(_filling(v, shape) for v in apply_block(joins[shape], (*left, *right)))

    computes = any(isinstance(inner, t.Map) and inner.fn not in CHOOSING for inner in op.join.ops)
    lines = [_moved(x, op) for x in xs]
    rounded = [_rounded(v, tensor_type(x).dtype) for v, x in zip(lines, op.xs, strict=True)] if computes else lines
    one = _in_order(join, rounded)[op.number]
    two, met = _in_pairs(join, rounded, computes)
    pairs = two[op.number]
    seen = np.logical_or.accumulate(met | ~_alike(one.x, pairs.x), axis=0)
    if one.x.dtype.kind == "f":
        given = np.logical_or.accumulate(np.logical_or.reduce([_nan(x) for x in lines]), axis=0)
        seen &= ~(np.isnan(one.x) & np.isnan(pairs.x) & given)
    if one.exact and pairs.exact and not seen.any():
        return Val(_back(one.x, op))
    return Val(_back(one.x, op), _back(np.where(seen, np.inf, one.bound() + pairs.bound()), op))


def _filling(v: Val, shape: tuple[int, ...]) -> Val:
    """``v`` as an array of ``shape``, were it one constant."""
    return v if v.x.shape == shape else Val(np.broadcast_to(v.x, shape), 0.0 if v.exact else np.broadcast_to(v.bound(), shape))


def _rounded(v: Val, dtype: str) -> Val:
    if v.x.dtype.kind != "f" or v.x.shape[0] < 2:
        return v
    depth = 8 + 2 * math.ceil(math.log2(v.x.shape[0]))  # of elements in one thread, and of threads in pairs of pairs
    slack = depth * accuracy.unit(dtype) * np.abs(v.x)
    return Val(v.x, v.bound() + np.where(np.isfinite(slack), slack, 0.0))


def _moved(v: Val, op: t.AssociativeScan) -> Val:
    """``v`` with the axis first, in the direction of the scan."""
    def moved(x: np.ndarray) -> np.ndarray:
        return np.moveaxis(np.flip(x, op.axis) if op.reverse else x, op.axis, 0)

    return Val(moved(v.x), 0.0 if v.exact else moved(v.bound()))


def _back(x: np.ndarray, op: t.AssociativeScan) -> np.ndarray:
    x = np.moveaxis(x, 0, op.axis)
    return np.flip(x, op.axis) if op.reverse else x


def _at(v: Val, where: Any) -> Val:
    return Val(v.x[where], 0.0 if v.exact else v.bound()[where])


def _stacked(parts: Sequence[Val], like: Val) -> Val:
    x = np.stack([p.x for p in parts]).astype(like.x.dtype) if parts else like.x
    return Val(x) if all(p.exact for p in parts) else Val(x, np.stack([p.bound() for p in parts]))


def _in_order(join: Join, lines: Sequence[Val]) -> Elements:
    run: list[Elements] = []
    for i in range(lines[0].x.shape[0]):
        here = tuple(_at(v, i) for v in lines)
        run.append(join(run[-1], here) if run else here)
    return tuple(_stacked([r[n] for r in run], v) for n, v in enumerate(lines))


def _in_pairs(join: Join, lines: Sequence[Val], undoes: bool) -> tuple[Elements, np.ndarray]:
    """The scan in steps of 1, 2, 4, ..., and where a part up to there was not finite (NaN, of what only chooses)."""
    now: Elements = tuple(lines)
    met = np.zeros(lines[0].x.shape, bool)
    step, length = 1, lines[0].x.shape[0]
    while True:
        for v in now:
            met |= (_nan(v) | (np.isinf(v.x) & undoes) if v.x.dtype.kind == "f" else False) | v.open()
        if step >= length:
            return now, met
        head = tuple(_at(v, slice(None, step)) for v in now)
        tail = join(tuple(_at(v, slice(None, length - step)) for v in now), tuple(_at(v, slice(step, None)) for v in now))
        now = tuple(_end_to_end(a, b) for a, b in zip(head, tail, strict=True))
        step *= 2


def _end_to_end(a: Val, b: Val) -> Val:
    x = np.concatenate([a.x, b.x.astype(a.x.dtype)])
    return Val(x) if a.exact and b.exact else Val(x, np.concatenate([a.bound(), b.bound()]))


def _nan(v: Val) -> np.ndarray:
    return np.isnan(v.x) if v.x.dtype.kind == "f" else np.zeros(v.x.shape, bool)


def _alike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether two results are both finite, or the same."""
    if a.dtype.kind != "f":
        return np.ones(a.shape, bool)
    return (np.isfinite(a) & np.isfinite(b)) | (a == b) | (np.isnan(a) & np.isnan(b))
