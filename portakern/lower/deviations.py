"""Sums of squared differences from a mean that is found in the same walk.

A walk has seen ``n`` elements with the sum ``S`` and the sum ``M`` of squares around their mean; a tile of ``c`` more has ``s``
and ``m`` around its own.  Together they have ``M + m + (s / c - S / n)^2 n c / (n + c)`` (Chan, Golub and LeVeque 1983,
"Algorithms for computing the sample variance"), which loses nothing to cancellation: each tile is summed around its own mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.ir.core import Op
from portakern.ir.size import product
from portakern.ir.tensor import DimSize, Expand, Fold, Map, Reshape, tensor_type
from portakern.lower.classes import is_thin
from portakern.lower.online import unwidened

LONG = 1 << 19
"""Bytes of a row from which on reading it a second time takes longer than the sums of its tiles: less stays in a core's cache,
or with rows of all blocks in a device's."""


@dataclass(frozen=True, eq=False)
class Deviations:
    """A sum of squares of ``x`` less its mean, which is ``total`` over the number of elements."""

    x: Op
    total: Fold


def match_deviations(fold: Fold) -> Deviations | None:
    """``fold`` as such a sum.  What is rounded on the way is another one: around a rounded mean it may be far larger."""
    squared = unwidened(fold.x)
    if fold.fn != "sum" or not isinstance(squared, Map) or squared.fn != "mul" or squared.args[0] is not squared.args[1]:
        return None
    less = unwidened(squared.args[0])
    if not isinstance(less, Map) or less.fn != "sub" or not DTYPES[tensor_type(less).dtype].is_float:
        return None
    x, mean = less.args[0], _unmoved(less.args[1])
    if not isinstance(mean, Map) or mean.fn != "div" or not isinstance(total := unwidened(mean.args[0]), Fold):
        return None
    count = _unmoved(mean.args[1])
    shape = tensor_type(total.x).shape
    whole = isinstance(count, DimSize) and count.size == product(tuple(shape[a] for a in total.axes))
    same = total.fn == "sum" and total.axes == fold.axes and unwidened(total.x) is unwidened(x)
    return Deviations(x, total) if whole and same else None


def _unmoved(op: Op) -> Op:
    """``op`` without broadcasts and changes to wider dtypes."""
    while (inner := unwidened(op)) is not op or isinstance(op, Expand) or (isinstance(op, Reshape) and is_thin(op)):
        op = inner if inner is not op else op.x  # type: ignore[attr-defined]
    return op
