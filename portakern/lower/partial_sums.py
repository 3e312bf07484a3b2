"""Sums of products over their batches, as scales of blocks make them.

Numbers of few bits have one scale for a block of them along the summed dim, so a product is one for each block, each is scaled,
and they are summed.  One kernel walks the blocks: the product of one is a tile that is scaled and added, and never stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portakern.ir.core import Arg, Op
from portakern.ir.tensor import Contract, Convert, Expand, Fold, Map, Reshape, Transpose, tensor_type
from portakern.lower.classes import is_thin


def product_summed(fold: Op, users: Mapping[Op, Sequence[Op]]) -> Contract | None:
    """The product whose batches ``fold`` sums, with elementwise work on it alone in between, which nothing else uses."""
    if not isinstance(fold, Fold) or fold.fn != "sum":
        return None
    found: Contract | None = None
    shape = tensor_type(fold.x).shape
    frontier: list[Op] = [fold.x]
    path: set[Op] = {fold}
    while frontier:
        op = frontier.pop()
        if op in path or _is_of_arrays(op):
            continue
        path.add(op)
        if isinstance(op, Contract) and found in (None, op) and tensor_type(op).shape == shape:
            found = op
        elif isinstance(op, Map | Convert) and tensor_type(op).shape == shape:
            frontier += op.operands
        else:
            return None
    if found is None or not set(fold.axes) <= set(range(len(found.lhs_batch))):
        return None
    return found if all(path.issuperset(users.get(op, ())) for op in path - {fold}) else None


def _is_of_arrays(op: Op) -> bool:
    """Whether ``op`` is elementwise work on arrays."""
    frontier, seen = [op], set[Op]()
    while frontier:
        op = frontier.pop()
        if op in seen or isinstance(op, Arg) or not op.operands:
            continue
        seen.add(op)
        if not (isinstance(op, Map | Convert | Expand | Transpose) or (isinstance(op, Reshape) and is_thin(op))):
            return False
        frontier += op.operands
    return True
