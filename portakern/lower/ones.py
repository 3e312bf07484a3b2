"""Dims of one element that a reshape puts in: what follows is done without them, and they are put in last.

PyTorch normalises groups and instances in shapes such as [N, groups, channels, 1] and [1, N * C, H, W].  A reduction leaves out
dims of one element (:mod:`simplify`), and so it would look at its array in another shape than the work around it, which then
is no work of the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.ir.tensor import Convert, Expand, Map, Reshape, Transpose, tensor_type
from portakern.lower.joining import of_arrays

rules = Rules()

Shape = tuple[Size, ...]


@rules.on(Expand)
def expand_without_ones(op: Expand) -> Op | None:
    """Dims of one element need not be put in before others are."""
    x = op.x
    if not isinstance(x, Reshape) or not _puts_in(x):
        return None
    kept = [d for d, size in enumerate(x.shape) if size != 1]
    return Expand(Reshape(x.x, _those(x.shape, kept)), op.shape, tuple(op.dims[d] for d in kept))


@rules.on(Reshape)
def ones_put_in_and_out(op: Reshape) -> Op | None:
    x = op.x
    return x.x if isinstance(x, Expand) and _only_ones(x) and tensor_type(x.x).shape == op.shape else None


@rules.on(Reshape)
def ones_moved(op: Reshape) -> Op | None:
    """Where dims of one element stand is no matter to a reshape."""
    x = op.x
    if not isinstance(x, Transpose):
        return None
    others = [d for d in x.order if tensor_type(x.x).shape[d] != 1]
    return Reshape(x.x, op.shape) if others == sorted(others) else None


@rules.on(Map)
def elementwise_before_ones_of_reductions(op: Map) -> Op | None:
    """What was reduced has its dims of one element put in after the elementwise work on it, where all of it is such."""
    arrays = [a for a in op.args if tensor_type(a).shape]
    first = next(iter(arrays), None)
    if not isinstance(first, Expand) or not tensor_type(first.x).shape or not _only_ones(first):
        return None
    if not all(isinstance(a, Expand) and a.dims == first.dims and _only_ones(a) for a in arrays):
        return None
    args = tuple(a.x if isinstance(a, Expand) and tensor_type(a).shape else a for a in op.args)
    return Expand(Map(op.fn, args, loc=op.loc), first.shape, first.dims)


@rules.on(Map)
def elementwise_before_ones(op: Map) -> Op | None:
    """Work on what a reshape put dims of one element into, beside something that is no reshape of arrays."""
    shape = tensor_type(op).shape
    if not any(isinstance(a, Reshape) and _puts_in(a) for a in op.args) or not any(_is_expanded(a) for a in op.args):
        return None
    kept = [d for d, size in enumerate(shape) if size != 1]
    args = [_without(a, shape, kept) for a in op.args]
    made = tuple(a for a in args if a is not None)
    return Reshape(Map(op.fn, made, loc=op.loc), shape) if len(made) == len(args) and kept else None


def _puts_in(op: Reshape) -> bool:
    """Whether it has more dims of one element than what it reshapes."""
    return op.shape.count(1) > tensor_type(op.x).shape.count(1)


def _only_ones(op: Expand) -> bool:
    """Whether it does nothing but put in dims of one element."""
    kept = _those(op.shape, op.dims)
    return kept == tensor_type(op.x).shape and all(size == 1 for d, size in enumerate(op.shape) if d not in op.dims)


def _is_expanded(op: Op) -> bool:
    return isinstance(op, Expand) and bool(tensor_type(op.x).shape)


def _without(op: Op, shape: Shape, kept: Sequence[int]) -> Op | None:
    """``op``, of ``shape``, with no more than its dims ``kept``; None where that would be a reshape of a computed value."""
    match op:
        case Reshape(x=x):
            return Reshape(x, _those(shape, kept))
        case Convert(x=x):
            made = _without(x, shape, kept)
            return Convert(made, op.dtype, loc=op.loc) if made is not None else None
        case Expand(x=x, dims=dims) if tensor_type(x).shape:
            left = [n for n, d in enumerate(dims) if d in kept]
            inner = x if len(left) == len(dims) else Reshape(x, _those(tensor_type(x).shape, left))
            return Expand(inner, _those(shape, kept), tuple(kept.index(dims[n]) for n in left))
    if not tensor_type(op).shape:
        return op
    return Reshape(op, _those(shape, kept)) if of_arrays(op) else None


def _those(entries: Sequence[Size], places: Sequence[int]) -> Shape:
    return tuple(entries[p] for p in places)
