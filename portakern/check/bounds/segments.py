"""Reductions of segments: each is bound as a reduction by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Op

from .rules import RULES, dtype_of, rule
from .value import Val


@rule(t.SegmentFold)
def _(op: t.SegmentFold, v: Val, offsets: Val) -> Val:
    if np.any(offsets.bound() > 0):  # whatever the segments are
        r = oracle.apply(op, [v.x, offsets.x])
        return Val(r, np.full(r.shape, np.inf))
    lines, bounds = _first(op.axis, v.x), None if v.exact else _first(op.axis, v.bound())
    each = []
    for lo, hi in oracle.segment_bounds(offsets.x, len(lines)):
        whole: Op = t.Fold(op.fn, Arg("segment", t.TensorType((hi - lo, *lines.shape[1:]), dtype_of(op))), (0,))
        each.append(RULES[t.Fold](whole, Val(lines[lo:hi], 0.0 if bounds is None else bounds[lo:hi])))
    shape = (len(each), *lines.shape[1:])

    def joined(parts: list[Any], dtype: Any) -> np.ndarray:
        return np.moveaxis(np.asarray([np.broadcast_to(p, shape[1:]) for p in parts], dtype).reshape(shape), 0, op.axis)

    exact = all(p.exact for p in each)
    over = joined([False if p.overflown is None else p.overflown for p in each], bool)
    return Val(joined([p.x for p in each], v.x.dtype), 0.0 if exact else joined([p.e for p in each], np.float64),
               overflown=over if over.any() else None)  # fmt: skip


def _first(axis: int, x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, axis, 0)
