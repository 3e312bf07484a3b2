"""Rewrites for loops that became straight code: what they started from is now a constant among the operands."""

from __future__ import annotations

import math

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.tile import Binary, Broadcast, Const, Dot, Reduce, Select, Unary, tile_type

from .constants import filled_with

STRAIGHT = Rules()


def _is(op: Op, value: float) -> bool:
    fill = filled_with(op)
    return fill is not None and fill.value == value and not isinstance(fill.value, bool)


def _filled(value: float, like: Op) -> Op:
    kind = tile_type(like)
    constant = Const(value, kind.dtype)
    return Broadcast(constant, kind.dims) if kind.dims else constant


@STRAIGHT.on(Binary)
def start_of_a_maximum(op: Binary) -> Op | None:
    """``max(-inf, x)`` is ``x``."""
    if op.fn == "max" and _is(op.lhs, -math.inf) and tile_type(op.rhs).dims == tile_type(op).dims:
        return op.rhs
    return None


@STRAIGHT.on(Unary)
def rescaling_of_nothing(op: Unary) -> Op | None:
    """``exp(-inf - shift)`` is 0 for a shift that a select keeps from being -inf, as an online softmax does.

    A shift that is NaN makes the scores NaN as well, so nothing is hidden.
    """
    x = op.x
    if op.fn == "exp" and isinstance(x, Binary) and x.fn == "sub" and _is(x.lhs, -math.inf) and isinstance(x.rhs, Select):
        return _filled(0.0, op)
    return None


@STRAIGHT.on(Binary)
def product_of_zeros(op: Binary) -> Op | None:
    if op.fn == "mul" and _is(op.lhs, 0.0) and _is(op.rhs, 0.0):
        return _filled(0.0, op)
    return None


@STRAIGHT.on(Binary)
def start_of_a_sum(op: Binary) -> Op | None:
    """``0 + sum`` is the sum."""
    if op.fn == "add" and _is(op.lhs, 0.0) and isinstance(op.rhs, Reduce | Dot):
        return op.rhs
    return None
