"""Elementwise work behind a reshape that joins dims of a computed value: done before it, in the value's own dims.

Such a reshape is no index map of what a kernel computes, so the value would have to be stored before it.  The other operands
are split instead, which for arrays is free, and the reshape comes last: an output is stored in the dims that it was computed
in.  A group normalisation is one kernel so, since weights of channels are ones of (group, channel of the group).

Batches of a product that are joined dims, as PyTorch's ``bmm`` wants them, are these dims again: the reshapes before and behind
it meet, and what stands between two such products is found as it was meant, an attention say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from portakern.ir.core import Arg, Op
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, product
from portakern.ir.tensor import (
    Assemble,
    Contract,
    Convert,
    DimSize,
    Expand,
    Fold,
    Gather,
    Iota,
    Literal,
    Map,
    Reshape,
    Slice,
    Transpose,
    tensor_type,
)  # fmt: skip
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
    done: dict[Op, Op | None] = {}
    args = [_split(a, inner, groups, done) for a in op.args]
    made = [a for a in args if a is not None]
    return Reshape(Map(op.fn, tuple(made), loc=op.loc), shape) if len(made) == len(args) else None


@rules.on(Map)
def elementwise_before_any_reshape(op: Map) -> Op | None:
    """Work on values that are all reshaped alike, and on numbers, whatever the reshape does."""
    arrays = [a for a in op.args if tensor_type(a).shape]
    alike = {tensor_type(a.x).shape if isinstance(a, Reshape) and not is_thin(a) else None for a in arrays}
    if len(alike) != 1 or None in alike or all(reshapes_freely(a.x) for a in arrays if isinstance(a, Reshape)):
        return None
    args = tuple(a.x if isinstance(a, Reshape) and tensor_type(a).shape else a for a in op.args)
    return Reshape(Map(op.fn, args, loc=op.loc), tensor_type(op).shape)


@rules.on(Fold)
def reduction_before_joining(op: Fold) -> Op | None:
    """A reduction over dims that are none of the joined ones."""
    x = op.x
    if not isinstance(x, Reshape) or not _joins(x):
        return None
    groups = joined_dims(tensor_type(x.x).shape, x.shape)
    assert groups is not None
    if any(len(groups[d]) != 1 for d in op.axes):
        return None
    return Reshape(Fold(op.fn, x.x, tuple(groups[d].start for d in op.axes), loc=op.loc), tensor_type(op).shape)


@rules.on(Transpose)
def transpose_before_joining(op: Transpose) -> Op | None:
    x = op.x
    if not isinstance(x, Reshape) or not _joins(x):
        return None
    groups = joined_dims(tensor_type(x.x).shape, x.shape)
    assert groups is not None
    moved = Transpose(x.x, tuple(i for d in op.order for i in groups[d]), loc=op.loc)
    return Reshape(moved, tensor_type(op).shape)


@rules.on(Contract)
def product_before_joining_batches(op: Contract) -> Op | None:
    apart = joined_by(op.lhs, op.lhs_batch) or joined_by(op.rhs, op.rhs_batch)
    if apart is None:
        return None
    left, right = (dict(zip(batch, apart, strict=True)) for batch in (op.lhs_batch, op.rhs_batch))
    return product_apart(op, left, right)


Apart = Mapping[int, Shape]
"""Dims of a value, and those that each joins."""


def product_apart(op: Contract, left: Apart, right: Apart) -> Op | None:
    """``op`` in the dims that those of its operands join, and its result joined."""
    lhs, rhs = with_dims(op.lhs, left), with_dims(op.rhs, right)
    if lhs is None or rhs is None:
        return None
    made = Contract(lhs, rhs, _dims_in(op.lhs_batch, left), _dims_in(op.rhs_batch, right), _dims_in(op.lhs_axes, left),
                    _dims_in(op.rhs_axes, right), op.dtype, op.precision, loc=op.loc)  # fmt: skip
    return Reshape(made, tensor_type(op).shape)


def joined_by(op: Op, dims: Sequence[int]) -> list[Shape] | None:
    """What each of ``dims`` joins, where a reshape of a computed value or of a view joins some."""
    left, seen = [(op, tuple(dims))], set[tuple[Op, tuple[int, ...]]]()
    while left:
        op, along = left.pop()
        if (op, along) in seen:
            continue
        seen.add((op, along))
        match op:
            case Transpose(x=x, order=order):
                left.append((x, tuple(order[d] for d in along)))
            case Convert(x=x):
                left.append((x, along))
            case Map(args=args):
                left += [(a, along) for a in reversed(args) if tensor_type(a).shape]
            case Reshape(x=x) if not of_arrays(x) and not is_thin(op):
                parts = [_joined_by(op, d) for d in along]
                if any(len(p) > 1 for p in parts):
                    return parts
    return None


def _joined_by(op: Reshape, dim: int) -> Shape:
    """The dims of the operand that ``op`` joins to ``dim``, whatever it does with others: where these end inside of it."""
    size, before = op.shape[dim], product(op.shape[:dim])
    ends = [product(tensor_type(op.x).shape[:n]) for n in range(tensor_type(op.x).rank + 1)]
    if not all(isinstance(n, int) and n for n in (size, before, *ends)):
        return (size,)
    cuts = sorted({before, before * size, *(n for n in ends if before < n < before * size)})  # type: ignore[operator, type-var]
    return tuple(b // a for a, b in pairwise(cuts)) if all(b % a == 0 for a, b in pairwise(cuts)) else (size,)  # type: ignore[operator]


Done = dict[tuple[Op, tuple[tuple[int, Shape], ...]], "Op | None"]
"""What was made of values, each once for the same dims, in however many ways it is used."""


def with_dims(op: Op, apart: Apart, done: Done | None = None) -> Op | None:
    """``op`` with the dims that its own join; None where that would be a reshape of a computed value that had none before."""
    done = {} if done is None else done
    key = op, tuple(sorted(apart.items()))
    if key not in done:
        done[key] = _with_dims_anew(op, apart, done)
    return done[key]


def _with_dims_anew(op: Op, apart: Apart, done: Done) -> Op | None:
    shape = tensor_type(op).shape
    if not shape:
        return op
    new = tuple(n for d, size in enumerate(shape) for n in apart.get(d, (size,)))
    match op:
        case Transpose(x=x, order=order):
            inner = {order[d]: sizes for d, sizes in apart.items()}
            made = with_dims(x, inner, done)
            return Transpose(made, _dims_in(order, inner), loc=op.loc) if made is not None else None
        case Convert(x=x):
            made = with_dims(x, apart, done)
            return Convert(made, op.dtype, loc=op.loc) if made is not None else None
        case Map(args=args):
            found = [with_dims(a, apart, done) for a in args]
            whole = [a for a in found if a is not None]
            return Map(op.fn, tuple(whole), loc=op.loc) if len(whole) == len(found) else None
        case Reshape(x=x):
            inner = tensor_type(x).shape
            return x if inner == new else Reshape(x, new) if of_arrays(x) or joined_dims(new, inner) is not None else None
        case Expand(x=x, dims=dims):
            thin = {i for i, n in enumerate(tensor_type(x).shape) if n == 1}
            wide = {i: apart[d] for i, d in enumerate(dims) if d in apart and (i not in thin or not apart[d])}
            made = with_dims(x, wide, done) if wide else x
            if made is None:
                return None
            places = (_dims_in((d,), apart)[: None if i in wide else 1] for i, d in enumerate(dims))
            return Expand(made, new, tuple(p for found in places for p in found))
        case Slice(x=x, starts=starts, stops=stops, steps=steps) if all(_whole(op, d) for d in apart):
            made = with_dims(x, apart, done)
            ends = _ends(apart, starts, stops, steps)
            return Slice(made, *ends, loc=op.loc) if made is not None else None
        case Assemble(parts=parts, fill=fill) if all(tensor_type(p).shape[d] == shape[d] for p in parts for d in apart):
            pieces = [with_dims(p, apart, done) for p in parts]
            places = [_ends(apart, offsets, (0,) * len(shape), steps) for offsets, steps in op.places]
            whole = tuple(p for p in pieces if p is not None)
            return Assemble(whole, new, tuple(o for p in places for o in p[0]), tuple(s for p in places for s in p[2]), fill,
                            loc=op.loc) if len(whole) == len(parts) else None  # fmt: skip
        case Iota(axis=axis, dtype=dtype):
            return _coordinates(new, _dims_in((axis,), {**dict.fromkeys(range(len(shape)), (0,)), **apart}), dtype)
        case Gather(x=x, indices=indices, axis=axis, zipped=False):
            rank = tensor_type(indices).rank
            inside = {d - axis: sizes for d, sizes in apart.items() if axis <= d < axis + rank}
            around = {d if d < axis else d - rank + 1: sizes for d, sizes in apart.items() if not axis <= d < axis + rank}
            of, at = with_dims(x, around, done), with_dims(indices, inside, done)
            first = axis + sum(len(sizes) - 1 for d, sizes in around.items() if d < axis)
            return replace(op, x=of, indices=at, axis=first) if of is not None and at is not None else None
    return Reshape(op, new) if of_arrays(op) else None


def _whole(op: Slice, dim: int) -> bool:
    """Whether a slice takes all of ``dim``."""
    return (op.starts[dim], op.stops[dim], op.steps[dim]) == (0, tensor_type(op.x).shape[dim], 1)


Ends = tuple[tuple[Size, ...], tuple[Size, ...], tuple[int, ...]]


def _ends(apart: Apart, starts: Sequence[Size], stops: Sequence[Size], steps: Sequence[int]) -> Ends:
    """Where a slice or a piece begins and ends, and its steps, with dims ``apart`` of which it has all."""
    found = [x for d, here in enumerate(zip(starts, stops, steps, strict=True))
             for x in ([(0, n, 1) for n in apart[d]] if d in apart else [here])]  # fmt: skip
    first, last, each = zip(*found, strict=True)
    return first, last, each


def _coordinates(shape: Shape, dims: Sequence[int], dtype: str) -> Op:
    """The coordinate along the dim that ``dims`` of ``shape`` join; 0 where it is of one element and no dim is left of it."""
    nothing = Literal(0, dtype)
    total: Op | None = None if dims else Expand(nothing, shape, ()) if shape else nothing
    for d in dims:
        inside = product(tuple(shape[i] for i in dims if i > d))
        along: Op = Iota(shape, d, dtype)
        part = along if inside == 1 else Map("mul", (along, DimSize(inside, dtype)))
        total = part if total is None else Map("add", (total, part))
    assert total is not None
    return total


def _dims_in(dims: Iterable[int], apart: Apart) -> tuple[int, ...]:
    """Where ``dims`` are once those in ``apart`` are several."""
    first = {d: d + sum(len(sizes) - 1 for e, sizes in apart.items() if e < d) for d in dims}
    return tuple(first[d] + i for d in first for i in range(len(apart.get(d, (0,)))))


def joined_dims(inner: Shape, outer: Shape) -> list[range] | None:
    """For each dim of ``outer`` the neighbouring dims of ``inner`` that it joins; None where it does not join whole dims."""
    groups: list[range] = []
    at = 0
    for n, size in enumerate(outer):
        end = at + (size == 1 and inner[at : at + 1] == (1,))
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


def reshapes_freely(op: Op) -> bool:
    """Whether a reshape of ``op`` can be made a reshape of the arrays it is computed from, elementwise."""
    seen: set[Op] = set()  # of values that are used twice again and again, each once
    left = [op]
    while left:
        op = left.pop()
        if op in seen or isinstance(op, Arg | Reshape) or not tensor_type(op).shape:
            continue
        seen.add(op)
        if isinstance(op, Expand) and not tensor_type(op.x).shape:
            continue
        if not isinstance(op, Map | Convert):
            return False
        left += op.operands
    return True


def of_arrays(op: Op) -> bool:
    """Whether a reshape of ``op`` can be one of the arrays that it is computed from, elementwise."""
    seen: set[Op] = set()
    left = [op]
    while left:
        op = left.pop()
        if op in seen:
            continue
        seen.add(op)
        match op:
            case Reshape(x=x) | Convert(x=x):
                left.append(x)
            case Map(args=args):
                left += args
            case Expand(x=x) if tensor_type(x).shape:
                return False
            case Arg() | Expand():
                pass
            case _ if tensor_type(op).shape:
                return False
    return True


def _split(op: Op, inner: Shape, groups: Sequence[range], done: dict[Op, Op | None]) -> Op | None:
    """``op`` with dims of ``inner`` in the place of the ones that join them; None where that would be a reshape of a computed
    value.  ``done`` is what was made before: each value once, in however many ways it is used."""
    if op not in done:
        done[op] = _split_anew(op, inner, groups, done)
    return done[op]


def _split_anew(op: Op, inner: Shape, groups: Sequence[range], done: dict[Op, Op | None]) -> Op | None:
    match op:
        case Reshape(x=x) if tensor_type(x).shape == inner:
            return x
        case Convert(x=x):
            made = _split(x, inner, groups, done)
            return Convert(made, op.dtype, loc=op.loc) if made is not None else None
        case Map(args=args):
            found = [_split(a, inner, groups, done) for a in args]
            whole = [a for a in found if a is not None]
            return Map(op.fn, tuple(whole), loc=op.loc) if len(whole) == len(found) else None
        case Expand(x=x, dims=dims):
            shape, places = _split_dims(tensor_type(x).shape, dims, inner, groups)
            if isinstance(x, Reshape) and tensor_type(x.x).shape == shape:
                return Expand(x.x, inner, places)
            return Expand(Reshape(x, shape), inner, places) if of_arrays(x) or shape == tensor_type(x).shape else None
        case Iota(axis=axis, dtype=dtype):
            return _coordinates(inner, groups[axis], dtype)
    if not tensor_type(op).shape:
        return op
    return Reshape(op, inner) if of_arrays(op) else None


def _split_dims(shape: Shape, dims: Sequence[int], inner: Shape, groups: Sequence[range]) -> tuple[Shape, tuple[int, ...]]:
    """The shape of what is expanded along ``dims``, split in the same way, and its dims in ``inner``."""
    places: list[int] = []
    sizes: list[Size] = []
    for size, dim in zip(shape, dims, strict=True):
        one = size == 1 and product(tuple(inner[i] for i in groups[dim])) != 1  # once is enough
        places += groups[dim][:1] if one else groups[dim]
        sizes += [1] if one else [inner[i] for i in groups[dim]]
    return tuple(sizes), tuple(places)
