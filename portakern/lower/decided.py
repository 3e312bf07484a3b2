"""Whether any coordinate of a line passes a comparison, or all of them do: the first or the last one decides.

PyTorch's attention gives 0 to a row whose mask is false everywhere, and reduces the mask of lengths to know it: whether any key
``j`` is below ``length[b]`` is whether 0 is.
"""

from __future__ import annotations

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.tensor import Convert, Expand, Fold, Iota, Literal, Map, Transpose, tensor_type
from portakern.lower.repeated import is_repeated, without

rules = Rules()

OTHER = {"any": "all", "all": "any"}


@rules.on(Fold)
def extreme_decides(op: Fold) -> Op | None:
    return _decided(op.x, op.axes[0], op.fn) if op.fn in OTHER and len(op.axes) == 1 else None


def _decided(op: Op, axis: int, fn: str) -> Op | None:
    """``any`` or ``all`` of ``op`` along ``axis``, which has elements; None where one element does not decide."""
    size = tensor_type(op).shape[axis]
    if not isinstance(size, int) or size < 2:
        return None
    match op:
        case Expand(x=x, shape=shape, dims=dims) if axis in dims and tensor_type(x).shape[dims.index(axis)] == size:
            made = _decided(x, dims.index(axis), fn)
            if made is None:
                return None
            left = tuple(d - (d > axis) for d in dims if d != axis)
            return Expand(made, tuple(n for d, n in enumerate(shape) if d != axis), left)
        case Map(fn="not", args=(x,)):
            made = _decided(x, axis, OTHER[fn])
            return Map("not", (made,), loc=op.loc) if made is not None else None
        case Map(fn="lt" | "le" | "gt" | "ge", args=args):
            first = (op.fn in ("lt", "le")) == (fn == "any")  # of coordinates on the left
            places = [0 if first else size - 1, size - 1 if first else 0]
            made = [_at(x, axis, place) for x, place in zip(args, places, strict=True)]
            whole = [x for x in made if x is not None]
            if len(whole) == 2 and any(tensor_type(x).shape for x in whole):
                return Map(op.fn, tuple(whole), loc=op.loc)
    return None


def _at(op: Op, axis: int, place: int) -> Op | None:
    """``op`` without ``axis``, where it is the same along it, or its coordinates: then that at ``place``."""
    if not tensor_type(op).shape:
        return op
    if is_repeated(op, axis):
        return without(op, axis)
    dtype, x = tensor_type(op).dtype, op
    while isinstance(x, Convert | Expand | Transpose):
        if isinstance(x, Expand):
            if axis not in x.dims:
                return None
            axis = x.dims.index(axis)
        axis = x.order[axis] if isinstance(x, Transpose) else axis
        x = x.x
    return Literal(place, dtype) if isinstance(x, Iota) and x.axis == axis and dtype in ("i32", "i64") else None
