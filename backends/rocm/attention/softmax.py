"""The running softmax in a walk over keys: weights whose shift may be any value near the maximum.

Weights are divided by their sum in the end, so only their proportions matter: a power of ``factor x - shift`` with one shift
for a row, or with all that was summed scaled where that changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from portakern.emit.softmax import LOG2_E
from portakern.ir import tile as t
from portakern.ir.core import Op, yielded

_ROUNDED = 1e-6
"""How far products of constants in f32 are from those of ours."""


@dataclass(frozen=True)
class RunningSoftmax:
    """One step: ``weigh`` adds the values by the powers of ``factor`` times ``scores`` to what is summed.  ``scores`` are the
    products ``score``, -inf where ``masked`` says or beyond the last key (``ragged``)."""

    score: t.Dot
    weigh: t.Dot
    factor: float
    scores: Op
    masked: bool
    ragged: bool


def running_softmax(loop: t.For) -> RunningSoftmax | None:
    """What a step of ``loop`` is, where it is that: it carries the maxima, the sums of the powers and the weighed sums."""
    now = yielded(loop.body)
    if len(now) != 3:
        return None
    (top, total, acc), (larger, sums, weigh) = loop.body.args, now
    if not isinstance(weigh, t.Dot) or not isinstance(weigh.lhs, t.Cast):
        return None
    power = weigh.lhs.x
    exponent = power.x if isinstance(power, t.Unary) and power.fn == "exp2" else None
    if not isinstance(exponent, t.Fma) or not isinstance(exponent.y, t.Const):
        return None
    scores, factor = exponent.x, float(exponent.y.value)
    found = _products(scores)
    if found is None or not 0 < factor < math.inf:
        return None
    scale = _scale(weigh.acc, acc)
    shift = _shift(exponent.z)
    match larger, sums:
        case t.Binary(fn="max", lhs=old, rhs=maximum), t.Binary(fn="add", lhs=scaled, rhs=added):
            follows = old is top and _is_maximum(maximum, scores, factor)
            adds = _scale(scaled, total) is scale and _is_sum(added, power)
        case _:
            return None
    if not (follows and adds and scale is not None and shift is not None and _falls(scale, top, shift, larger)):
        return None
    score, masked, ragged = found
    return RunningSoftmax(score, weigh, factor, scores, masked, ragged)


def _products(scores: Op) -> tuple[t.Dot, bool, bool] | None:
    """The products behind ``scores``, whether a condition masks them, and whether their end does."""
    masked = ragged = False
    while not isinstance(scores, t.Dot):
        match scores:
            case t.Mask(x=x, value=value) if value == -math.inf:
                scores, ragged = x, True
            case t.Select(yes=yes, no=t.Const(value=value)) if value == -math.inf:
                scores, masked = yes, True
            case _:
                return None
    zero = scores.acc.x if isinstance(scores.acc, t.Broadcast) else None
    return (scores, masked, ragged) if isinstance(zero, t.Const) and zero.value == 0 else None


def _row(op: Op) -> Op:
    return op.x if isinstance(op, t.Broadcast) else op


def _times(op: Op, value: float) -> Op | None:
    """``x`` of ``x * value``, where that is f32's nearest."""
    if not isinstance(op, t.Binary) or op.fn != "mul" or not isinstance(op.rhs, t.Const):
        return None
    return op.lhs if math.isclose(float(op.rhs.value), value, rel_tol=_ROUNDED) else None


def _scale(op: Op, carried: Op) -> Op | None:
    """What ``carried`` is multiplied by."""
    return _row(op.rhs) if isinstance(op, t.Binary) and op.fn == "mul" and op.lhs is carried else None


def _shift(op: Op) -> Op | None:
    """The maximum that the exponents are shifted by."""
    return _times(_row(op), -LOG2_E)


def _falls(scale: Op, top: Op, shift: Op, larger: Op) -> bool:
    """Whether ``scale`` is the power of the difference to the new maximum, 0 in place of -inf."""
    difference = _times(scale.x, LOG2_E) if isinstance(scale, t.Unary) and scale.fn == "exp2" else None
    match difference, shift:
        case t.Binary(fn="sub", lhs=old, rhs=new), t.Select(condition=t.Compare(fn="eq", lhs=x), yes=t.Const(value=0), no=y):
            return old is top and new is shift and x is larger and y is larger
    return False


def _is_maximum(op: Op, scores: Op, factor: float) -> bool:
    op = _times(op, factor / LOG2_E) or op
    return isinstance(op, t.Reduce) and op.fn == "max" and op.x is scores


def _is_sum(op: Op, power: Op) -> bool:
    return isinstance(op, t.Reduce) and op.fn == "sum" and op.x is power
