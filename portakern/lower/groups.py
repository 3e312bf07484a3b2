"""Products of weights that are dequantised group by group: the groups stay dims of the product.

The scale of a group is repeated along its weights, and the weights are joined again: a reshape of a computed value, which is
no index map of it.  The product over the joined dim is one over groups and over what is in them, where the other operand, an
array, is seen in these dims for free.  So weights are dequantised where they are multiplied, and a scale is read once for the
step that it belongs to.  Where groups are of columns of the result, too (scales of blocks), it is joined behind the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.ir.core import Arg, Op
from portakern.ir.functions import COSTLY
from portakern.ir.rewrite import Rules
from portakern.ir.tensor import Contract, Convert, DimSize, Expand, Iota, Literal, Map, Reshape, Transpose, tensor_type
from portakern.lower.classes import is_counted, is_thin
from portakern.lower.joining import Shape, joined_by, joined_dims, product_apart, with_dims
from portakern.lower.uses import needed

BLOCK = 128
"""Columns of a product that a block has, as most schedules have it: narrower groups of columns are better stored first."""


CHEAP = (Arg, Literal, DimSize, Iota, Map, Convert, Expand, Reshape, Transpose)
"""What arithmetic on arrays, and moves of them, are made of."""


def rules(step: int, picks: bool = True) -> Rules:
    """``step``: how many elements a language multiplies at least in one step along the summed dim.  What is taken in smaller
    groups is better stored first; so is what comes out of bytes where loads take no single elements (``picks``)."""
    found = Rules()

    @found.on(Contract)
    def product_of_groups(op: Contract) -> Op | None:
        if not picks and any(is_counted(o) for o in needed([op.lhs, op.rhs])):
            return None
        summed = _groups(op.lhs, op.lhs_axes, step) or _groups(op.rhs, op.rhs_axes, step)
        rows, columns = _groups(op.lhs, op.lhs_free, BLOCK), _groups(op.rhs, op.rhs_free, BLOCK)
        if summed is None and rows is None and columns is None:
            return None
        left = {**_apart(op.lhs_axes, summed), **_apart(op.lhs_free, rows)}
        return product_apart(op, left, {**_apart(op.rhs_axes, summed), **_apart(op.rhs_free, columns)})

    @found.on(Reshape)
    def out_of_bytes_in_groups(op: Reshape) -> Op | None:
        """What is picked at places that are known is picked in any dims."""
        parts = joined_dims(op.shape, tensor_type(op.x).shape)
        if not picks or parts is None or is_thin(op) or not _is_arithmetic(op.x) or not any(map(is_counted, needed([op.x]))):
            return None
        return with_dims(op.x, {d: tuple(op.shape[i] for i in dims) for d, dims in enumerate(parts)})

    return found


def _apart(dims: Sequence[int], sizes: Sequence[Shape] | None) -> dict[int, Shape]:
    return dict(zip(dims, sizes, strict=True)) if sizes is not None else {}


def _groups(op: Op, dims: Sequence[int], least: int) -> list[Shape] | None:
    """What each of ``dims`` joins, where arithmetic on arrays is joined, ``least`` neighbours or more."""
    apart = joined_by(op, dims)
    if apart is None or any(len(sizes) > 1 and (not isinstance(sizes[-1], int) or sizes[-1] < least) for sizes in apart):
        return None
    return apart if _is_arithmetic(op) else None


def _is_arithmetic(op: Op) -> bool:
    """Whether ``op`` is little work on arrays, element by element, and moves of them."""
    seen: set[Op] = set()
    left = [op]
    while left:
        op = left.pop()
        if op in seen:
            continue
        seen.add(op)
        if not (isinstance(op, CHEAP) or is_counted(op)):
            return False
        if isinstance(op, Map) and op.fn in COSTLY:
            return False
        left += op.operands
    return True
