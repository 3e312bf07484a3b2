"""Sums of products over their batches, as scales of blocks make them.

Numbers of few bits have one scale for a block of them along the summed dim, so a product is one for each block, each is scaled,
and they are summed.  One kernel walks the blocks: the product of one is a tile that is scaled and added, and never stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portakern.ir.core import Arg, Op
from portakern.ir.size import product
from portakern.ir.tensor import Contract, Convert, Expand, Fold, Map, Reshape, Transpose, tensor_type
from portakern.lower.classes import is_thin

FEW, LARGE = 64, 1 << 17
"""Batches that one block may walk whatever the size of the sum, and elements of a sum that keep a device busy."""



def product_summed(fold: Op, users: Mapping[Op, Sequence[Op]]) -> Contract | None:
    """The product whose batches ``fold`` sums, with elementwise work on it alone in between, which nothing else uses."""
    if not isinstance(fold, Fold) or fold.fn != "sum":
        return None
    found: dict[Contract, tuple[int, ...]] = {}
    frontier: list[tuple[Op, tuple[int, ...]]] = [(fold.x, fold.axes)]  # and which of its dims are summed
    path: set[Op] = {fold}
    while frontier:
        op, axes = frontier.pop()
        if op in path or _is_of_arrays(op):
            continue
        path.add(op)
        match op:
            case Contract():
                found[op] = axes
            case Map() | Convert():
                frontier += [(o, axes) for o in op.operands]
            case Transpose(x=x, order=order):
                frontier.append((x, tuple(order[d] for d in axes)))
            case _:
                return None
    if len(found) != 1 or any(not path.issuperset(users.get(op, ())) for op in path - {fold}):
        return None
    ((made, axes),) = found.items()
    some = any(tensor_type(made).shape[d] != 1 for d in axes)
    return made if some and set(axes) <= set(range(len(made.lhs_batch))) and _fills_a_device(made, axes) else None


def _fills_a_device(op: Contract, axes: Sequence[int]) -> bool:
    """Whether blocks of the sum alone are enough: of many batches of few elements each is better multiplied by a block."""
    shape = tensor_type(op).shape
    walked, rest = (product(tuple(n for d, n in enumerate(shape) if (d in axes) == inside)) for inside in (True, False))
    return not isinstance(walked, int) or walked <= FEW or not isinstance(rest, int) or rest >= LARGE


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
