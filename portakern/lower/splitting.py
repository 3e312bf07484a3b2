"""Work behind a reshape that splits dims of a computed value: done before it, in the value's own dims.

Such a reshape is no index map of what a kernel computes, so the value would have to be stored before it, and what follows be a
kernel of its own.  PyTorch writes one behind every linear layer, which multiplies the rows of all batches as one matrix.  Other
operands are joined instead, which for arrays is free, and the reshape comes last.  So a residual is added where its product is
computed, and the norm after it reduces rows of the same matrix.  :mod:`joining` does the same for the other way.

A slice or a transpose whose dims are split is one of the array in these dims, so that several moves are one view of it: the
heads of queries among those of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from portakern.ir.core import Arg, Op
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, product
from portakern.ir.tensor import Convert, Expand, Fold, Map, Reshape, Slice, Transpose, tensor_type
from portakern.lower.classes import is_thin
from portakern.lower.joining import Shape, joined_dims, of_arrays

rules = Rules()


@rules.on(Convert)
def convert_before_splitting(op: Convert) -> Op | None:
    x = op.x
    return Reshape(Convert(x.x, op.dtype, loc=op.loc), x.shape) if isinstance(x, Reshape) and _groups(x) is not None else None


@rules.on(Map)
def elementwise_before_splitting(op: Map) -> Op | None:
    shape = tensor_type(op).shape
    for whole, groups in _shapes_before(op):
        done: dict[Op, Op | None] = {}
        args = [_joined(a, whole, groups, done) for a in op.args]
        made = [a for a in args if a is not None]
        if len(made) == len(args):
            return Reshape(Map(op.fn, tuple(made), loc=op.loc), shape)
    return None


@rules.on(Fold)
def reduction_before_splitting(op: Fold) -> Op | None:
    """A reduction over all dims that some were split into, and no others."""
    x = op.x
    groups = _groups(x) if isinstance(x, Reshape) else None
    if groups is None:
        return None
    assert isinstance(x, Reshape)
    axes = tuple(d for d, group in enumerate(groups) if group and set(group) <= set(op.axes))
    if {i for d in axes for i in groups[d]} != set(op.axes):
        return None
    return Reshape(Fold(op.fn, x.x, axes, loc=op.loc), tensor_type(op).shape)


@rules.on(Reshape)
def slice_after_splitting(op: Reshape) -> Op | None:
    part = op.x
    groups = _splits(op) if isinstance(part, Slice) else None
    if groups is None:
        return None
    assert isinstance(part, Slice)
    dims: list[SlicedDim] = []
    taken = map(SlicedDim, tensor_type(part.x).shape, part.starts, part.stops, part.steps)
    for sizes, dim in zip(groups, taken, strict=True):
        found = _split_slice(dim, sizes)
        if found is None:
            return None
        dims += found
    shape, starts, stops, steps = zip(*dims, strict=True)
    return Reshape(Slice(Reshape(part.x, shape), starts, stops, steps, loc=part.loc), op.shape)


@rules.on(Reshape)
def transpose_after_splitting(op: Reshape) -> Op | None:
    moved = op.x
    groups = _splits(op) if isinstance(moved, Transpose) and _is_view(moved) else None
    if groups is None:
        return None
    assert isinstance(moved, Transpose)
    before = [groups[moved.order.index(d)] for d in range(len(groups))]  # as they lie in the operand
    first = [sum(map(len, before[:d])) for d in range(len(before))]
    order = tuple(first[d] + i for d in moved.order for i in range(len(before[d])))
    split = Reshape(moved.x, tuple(size for sizes in before for size in sizes))
    return Reshape(Transpose(split, order, loc=moved.loc), op.shape)


@rules.on(Reshape)
def reshape_of_put_in_dims(op: Reshape) -> Op | None:
    """Dims of one element that were put in are no matter to a reshape."""
    x = op.x
    return Reshape(x.x, op.shape) if isinstance(x, Expand) and _puts_in_dims(x) and not is_thin(op) else None


def _is_view(op: Op) -> bool:
    """Whether what is moved is an array, or had other dims before: of a computed value no more than one reshape is a view."""
    while isinstance(op, Transpose | Slice) or _puts_in_dims(op):
        (op,) = op.operands
    return isinstance(op, Arg | Reshape)


def _puts_in_dims(op: Op) -> bool:
    """Whether ``op`` adds dims of one element alone."""
    return isinstance(op, Expand) and product(op.shape) == product(tensor_type(op.x).shape)


def _splits(op: Reshape) -> list[Shape] | None:
    """What ``op`` splits each dim of its operand into, a dim of one element that is gone into one; None where it does something
    else, or nothing."""
    if is_thin(op):
        return None
    groups = joined_dims(op.shape, tensor_type(op.x).shape)
    return None if groups is None else [tuple(op.shape[i] for i in group) or (1,) for group in groups]


class SlicedDim(NamedTuple):
    """A dim, and what a slice takes of it."""

    size: Size
    start: Size
    stop: Size
    step: int


def _split_slice(dim: SlicedDim, parts: Shape) -> list[SlicedDim] | None:
    """The dims that ``dim`` becomes, where what is taken of it is split into ``parts``: whole ones of the first."""
    if len(parts) == 1:
        return [dim]
    whole = [SlicedDim(n, 0, n, 1) for n in parts]
    if (dim.start, dim.stop, dim.step) == (0, dim.size, 1):
        return whole
    inside = product(parts[1:])
    size, start, stop = (_exactly(n, inside) for n in (dim.size, dim.start, dim.stop))
    if dim.step != 1 or size is None or start is None or stop is None:
        return None
    return [SlicedDim(size, start, stop, 1), *whole[1:]]


def _exactly(n: Size, part: Size) -> int | None:
    return n // part if isinstance(n, int) and isinstance(part, int) and part and n % part == 0 else None


def _groups(op: Reshape) -> list[range] | None:
    """For each dim of a computed value the dims that ``op`` splits it into; None where that is not all that ``op`` does."""
    if of_arrays(op.x) or is_thin(op):
        return None
    return joined_dims(op.shape, tensor_type(op.x).shape)


def _shapes_before(op: Map) -> Iterator[tuple[Shape, list[range]]]:
    """The shapes that ``op`` may have before operands are split, each with the dims that its own become."""
    shape = tensor_type(op).shape
    for a in op.args:
        if isinstance(a, Reshape) and a.shape == shape and (groups := _groups(a)) is not None:
            yield tensor_type(a.x).shape, groups
        elif isinstance(a, Expand) and isinstance(a.x, Reshape) and (groups := _groups(a.x)) is not None:
            found = _expanded(a, groups)
            if found is not None:
                yield tuple(product(tuple(shape[i] for i in g)) for g in found), found


def _expanded(op: Expand, groups: Sequence[range]) -> list[range] | None:
    """The dims of ``op`` in groups: those that a dim of its operand was split into stay together, others are alone."""
    starts = {}
    for group in groups:
        dims = [op.dims[i] for i in group]
        if not dims or dims != list(range(dims[0], dims[0] + len(dims))):
            return None
        starts[dims[0]] = range(dims[0], dims[0] + len(dims))
    found: list[range] = []
    at = 0
    while at < len(op.shape):
        found.append(starts.get(at, range(at, at + 1)))
        at = found[-1].stop
    return found


def _joined(op: Op, whole: Shape, groups: Sequence[range], done: dict[Op, Op | None]) -> Op | None:
    """``op`` in the shape ``whole``, each dim of which joins a group of ``op``'s; None where that would be a reshape of a
    computed value.  ``done`` is what was made before: each value once, in however many ways it is used."""
    if op not in done:
        done[op] = _joined_anew(op, whole, groups, done)
    return done[op]


def _joined_anew(op: Op, whole: Shape, groups: Sequence[range], done: dict[Op, Op | None]) -> Op | None:
    match op:
        case Reshape(x=x) if tensor_type(x).shape == whole:
            return x
        case Convert(x=x):
            made = _joined(x, whole, groups, done)
            return Convert(made, op.dtype, loc=op.loc) if made is not None else None
        case Map(args=args):
            found = [_joined(a, whole, groups, done) for a in args]
            made_of = [a for a in found if a is not None]
            return Map(op.fn, tuple(made_of), loc=op.loc) if len(made_of) == len(found) else None
        case Expand():
            return _joined_expand(op, whole, groups)
    if not tensor_type(op).shape:
        return op
    return Reshape(op, whole) if of_arrays(op) else None


def _joined_expand(op: Expand, whole: Shape, groups: Sequence[range]) -> Op | None:
    inner = tensor_type(op.x).shape
    sizes, dims = [], []
    for d, group in enumerate(groups):
        own = [i for i, dim in enumerate(op.dims) if dim in group]
        if not own:
            continue
        size = product(tuple(inner[i] for i in own))
        if size not in (1, whole[d]):
            return None  # a part of the dims that are joined
        sizes.append(size)
        dims.append(d)
    shape = tuple(sizes)
    x = op.x
    if isinstance(x, Reshape) and tensor_type(x.x).shape == shape:
        x = x.x
    elif shape != inner:
        if not of_arrays(x):
            return None
        x = Reshape(x, shape)
    return Expand(x, whole, tuple(dims))
