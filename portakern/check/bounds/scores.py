"""Scores less their row's maximum, which kernels scale before they subtract."""

from __future__ import annotations

import numpy as np

from portakern.check import accuracy
from portakern.dtypes import DTYPES
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.tensor import tensor_type

_CARRIED = (t.Map, t.Convert, t.Expand, t.Reshape, t.Transpose, t.Slice)


def shift_of(op: t.Map, largest: np.ndarray) -> np.ndarray | None:
    """Of ``s - max(s)``, the maximum as far as a kernel may multiply it by itself; ``None`` for other differences.

    Attention cannot know how large its scores are.  Elsewhere a kernel that is given large numbers must subtract first.
    """
    m = op.operands[1]
    while isinstance(m, t.Expand | t.Convert | t.Reshape):
        m = m.x
    if not isinstance(m, t.Fold) or m.fn != "max" or tensor_type(op).dtype == "f64":
        return None
    return largest if _is_product(op.operands[0]) else np.where(np.abs(largest) < accuracy.SCALED_UP_TO, largest, 0.0)


def _is_product(s: Op) -> bool:
    """Whether ``s`` is made elementwise of a product of operands of 16 bits or fewer."""
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
