"""Scores of attention less their row's maximum, which kernels scale before they subtract."""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.tensor import tensor_type

_CARRIED = (t.Map, t.Convert, t.Expand, t.Reshape, t.Transpose, t.Slice)


def is_shifted_score(op: t.Map) -> bool:
    """Whether ``op`` is ``s - max(s)`` with ``s`` made elementwise of a product of operands of 16 bits or fewer."""
    s, m = op.operands
    while isinstance(m, t.Expand | t.Convert | t.Reshape):
        m = m.x
    if not isinstance(m, t.Fold) or m.fn != "max" or tensor_type(op).dtype == "f64":
        return False
    frontier, seen = [s], set[Op]()
    while frontier:
        op_ = frontier.pop()
        if op_ in seen:
            continue
        seen.add(op_)
        if isinstance(op_, t.Contract):
            if DTYPES[tensor_type(op_.lhs).dtype].bits <= 16:
                return True
        elif isinstance(op_, _CARRIED):
            frontier += op_.operands
    return False
