"""The running softmax in a walk over keys: weights whose shift may be any value near the maximum.

Weights are divided by their sum in the end, so only their proportions matter: a power of ``factor x - shift`` with one shift
for a row, or with all that was summed scaled where that changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from portakern.ir import tile as t
from portakern.ir.core import Op, yielded


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
    follows = _is_sum("max", larger, top, lambda x: _is_maximum(x, scores))
    adds = _is_sum("add", sums, total, lambda x: isinstance(x, t.Reduce) and x.fn == "sum" and x.x is power)
    if not (follows and adds and _unscaled(weigh.acc) is acc):
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


def _is_sum(fn: str, op: Op, carried: Op, other: Callable[[Op], bool]) -> bool:
    """Whether ``op`` is ``fn`` of what was carried, scaled perhaps, and ``other``."""
    return isinstance(op, t.Binary) and op.fn == fn and _unscaled(op.lhs) is carried and other(op.rhs)


def _unscaled(op: Op) -> Op:
    return op.lhs if isinstance(op, t.Binary) and op.fn == "mul" else op


def _is_maximum(op: Op, scores: Op) -> bool:
    op = _unscaled(op)
    return isinstance(op, t.Reduce) and op.fn == "max" and op.x is scores
