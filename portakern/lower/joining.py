"""Elementwise work behind a reshape that joins dims of a computed value: done before it, in the value's own dims.

Such a reshape is no index map of what a kernel computes, so the value would have to be stored before it.  The other operands
are split instead, which for arrays is free, and the reshape comes last: an output is stored in the dims that it was computed
in.  A group normalisation is one kernel so, since weights of channels are ones of (group, channel of the group).
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.ir.core import Arg, Op
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, product
from portakern.ir.tensor import Convert, Expand, Map, Reshape, tensor_type
from portakern.lower.classes import is_thin

rules = Rules()

Shape = tuple[Size, ...]


@rules.on(Convert)
def convert_before_joining(op: Convert) -> Op | None:
    x = op.x
    if not isinstance(x, Reshape) or not _joins(x):
        return None
    return Reshape(Convert(x.x, op.dtype, loc=op.loc), x.shape)


@rules.on(Map)
def elementwise_before_joining(op: Map) -> Op | None:
    shape = tensor_type(op).shape
    joined = next((a for a in op.args if isinstance(a, Reshape) and a.shape == shape and _joins(a)), None)
    if joined is None:
        return None
    inner = tensor_type(joined.x).shape
    groups = joined_dims(inner, shape)
    assert groups is not None
    args = [_split(a, inner, groups) for a in op.args]
    made = [a for a in args if a is not None]
    return Reshape(Map(op.fn, tuple(made), loc=op.loc), shape) if len(made) == len(args) else None


def joined_dims(inner: Shape, outer: Shape) -> list[range] | None:
    """For each dim of ``outer`` the neighbouring dims of ``inner`` that it joins; None where it does not join whole dims."""
    groups: list[range] = []
    at = 0
    for n, size in enumerate(outer):
        end = at
        while product(inner[at:end]) != size or (n + 1 == len(outer) and end < len(inner)):
            if end == len(inner):
                return None
            end += 1
        groups.append(range(at, end))
        at = end
    return groups if at == len(inner) else None


def _joins(op: Reshape) -> bool:
    """Whether ``op`` joins dims of a computed value, and does nothing else."""
    return not of_arrays(op.x) and not is_thin(op) and joined_dims(tensor_type(op.x).shape, op.shape) is not None


def of_arrays(op: Op) -> bool:
    """Whether a reshape of ``op`` can be one of the arrays that it is computed from, elementwise."""
    match op:
        case Arg():
            return True
        case Reshape(x=x) | Convert(x=x):
            return of_arrays(x)
        case Expand(x=x):
            return not tensor_type(x).shape
        case Map(args=args):
            return all(map(of_arrays, args))
    return not tensor_type(op).shape


def _split(op: Op, inner: Shape, groups: Sequence[range]) -> Op | None:
    """``op`` with dims of ``inner`` in the place of the ones that join them; None where that would be a reshape of a computed
    value."""
    match op:
        case Reshape(x=x) if tensor_type(x).shape == inner:
            return x
        case Convert(x=x):
            made = _split(x, inner, groups)
            return Convert(made, op.dtype, loc=op.loc) if made is not None else None
        case Map(args=args):
            found = [_split(a, inner, groups) for a in args]
            whole = [a for a in found if a is not None]
            return Map(op.fn, tuple(whole), loc=op.loc) if len(whole) == len(found) else None
        case Expand(x=x, dims=dims):
            shape, places = _split_dims(tensor_type(x).shape, dims, inner, groups)
            return Expand(Reshape(x, shape), inner, places) if of_arrays(x) or shape == tensor_type(x).shape else None
    if not tensor_type(op).shape:
        return op
    return Reshape(op, inner) if of_arrays(op) else None


def _split_dims(shape: Shape, dims: Sequence[int], inner: Shape, groups: Sequence[range]) -> tuple[Shape, tuple[int, ...]]:
    """The shape of what is expanded along ``dims``, split in the same way, and its dims in ``inner``."""
    places: list[int] = []
    sizes: list[Size] = []
    for size, dim in zip(shape, dims, strict=True):
        one = size == 1 and product(tuple(inner[i] for i in groups[dim])) != 1
        places += groups[dim]
        sizes += [1 if one else inner[i] for i in groups[dim]]
    return tuple(sizes), tuple(places)
