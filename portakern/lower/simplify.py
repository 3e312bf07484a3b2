"""Tensor programs in the form the families expect: trivial moves gone, reshapes pushed to the inputs, and contractions
without a matrix shape rewritten as products and sums.  Every rule keeps the value."""

from __future__ import annotations

from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.ir.core import Op
from portakern.ir.planes import Planes, never
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.size import Size
from portakern.ir.tensor import (
    ArgFold,
    AssociativeScan,
    Contract,
    Convert,
    Cumulate,
    DimSize,
    Expand,
    Fold,
    Gather,
    Iota,
    KeySort,
    Literal,
    Map,
    Reshape,
    SegmentContract,
    SegmentFold,
    Slice,
    TensorProgram,
    Transpose,
    tensor_type,
)  # fmt: skip
from portakern.ir.tile import identity
from portakern.lower import (
    decided,
    groups,
    joining,
    kept,
    lookups,
    ones,
    orders,
    pages,
    pieces,
    random_bits,
    repeated,
    scatters,
    splitting,
    windows,
)
from portakern.lower.joining import reshapes_freely

rules = Rules()


def simplify(program: TensorProgram, reach: bool = False, picks: bool = True, run: int = 1024, shares: bool = False,
             step: int = 16, columns: bool = True, planes: Planes = never) -> TensorProgram:  # fmt: skip
    """``reach``: windows of convolutions may read outside of their array, instead of one with its pads stored; with ``columns``
    the taps of a pixel of few channels are put side by side before, but for ``planes``.  ``picks``: loads
    may take single elements at coordinates that a kernel computes.  ``run``: a tile sorts so many elements (0: none).
    ``shares``: arrays that grow may be one, stored piece by piece (:mod:`growing`).  ``step``: the smallest groups that
    products walk (:mod:`groups`)."""
    reaching = windows.reaching + windows.of_planes(planes)
    reaching = reaching + windows.columns if columns else reaching
    windowed = reaching + windows.rules if reach else windows.rules
    ordered = orders.rules(picks, run) + scatters.rules(picks, run) + random_bits.rules
    shapes = ones.rules + joining.rules + splitting.rules + groups.rules(step, picks)
    first = repeated.rules + decided.rules + pages.rules + (rules if picks else rules + lookups.rules)
    every = first + shapes + pieces.views + pieces.work + windowed + ordered
    if not (shares and kept.may_grow(program)):
        return canonicalise(program, every)
    assembled = canonicalise(program, first + shapes + pieces.views + windowed + ordered)
    return kept.kept_whole(assembled, lambda opened: canonicalise(opened, every))


def squeezed(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    return tuple(s for s in shape if s != 1)


def full(value: float | int | bool, dtype: str, shape: tuple[Size, ...]) -> Op:
    scalar = Literal(value, dtype)
    return Expand(scalar, shape, ()) if shape else scalar


# ---- moves that move nothing -------------------------------------------------------------------------------------------


@rules.on(Convert)
def convert_to_same(op: Convert) -> Op | None:
    return op.x if tensor_type(op.x).dtype == op.dtype else None


@rules.on(Convert)
def convert_literal(op: Convert) -> Op | None:
    """A constant takes its dtype at once, where the new dtype holds it exactly enough to be a constant of it."""
    if not isinstance(op.x, Literal) or DTYPES[op.dtype].bits < 32 or op.dtype == "bool":
        return None
    kind = DTYPES[op.dtype]
    if kind.is_int and not (isinstance(op.x.value, int) or float(op.x.value).is_integer()):
        return None
    return Literal(float(op.x.value) if kind.is_float else int(op.x.value), op.dtype)


@rules.on(Expand)
def expand_to_same(op: Expand) -> Op | None:
    return op.x if tensor_type(op.x).shape == op.shape else None


@rules.on(Expand)
def expand_twice(op: Expand) -> Op | None:
    if not isinstance(op.x, Expand):
        return None
    return Expand(op.x.x, op.shape, tuple(op.dims[d] for d in op.x.dims))


@rules.on(Slice)
def slice_of_expanded(op: Slice) -> Op | None:
    """Every element along a dim that was expanded is the same: fewer of them are as many expanded.  (What is added to a piece
    of an array, a bias to a phase of a transposed convolution, is a slice of what was added to all of it.)"""
    if not isinstance(op.x, Expand):
        return None
    inner, dims = op.x.x, op.x.dims
    have = tensor_type(inner).shape
    own = [size == op.x.shape[d] for size, d in zip(have, dims, strict=True)]  # the others are of one element, too
    starts = tuple(op.starts[d] if mine else 0 for d, mine in zip(dims, own, strict=True))
    stops = tuple(op.stops[d] if mine else size for d, size, mine in zip(dims, have, own, strict=True))
    steps = tuple(op.steps[d] if mine else 1 for d, mine in zip(dims, own, strict=True))
    whole = (starts, stops, steps) == ((0,) * len(dims), have, (1,) * len(dims))
    return Expand(inner if whole else Slice(inner, starts, stops, steps, loc=op.loc), tensor_type(op).shape, dims)


@rules.on(Map)
def map_of_expanded_scalars(op: Map) -> Op | None:
    """Elementwise operations take scalars as they are, so expanding one is work for nothing."""
    if not tensor_type(op).shape:
        return None
    args = tuple(a.x if isinstance(a, Expand) and not tensor_type(a.x).shape else a for a in op.args)
    if args == op.args:
        return None
    if any(tensor_type(a).shape for a in args):
        return Map(op.fn, args, loc=op.loc)
    return Expand(Map(op.fn, args, loc=op.loc), tensor_type(op).shape, ())


NOTHING = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1}
"""Functions of integers, and the second argument that changes nothing."""


@rules.on(Map)
def integers_that_change_nothing(op: Map) -> Op | None:
    if not DTYPES[tensor_type(op).dtype].is_int or op.fn not in (*NOTHING, "and"):
        return None
    x, y = op.args
    known = [a.value if isinstance(a, Literal) else None for a in (x, y)]
    if 0 in known and (op.fn in ("and", "mul") or (known[0] == 0 and op.fn in ("shl", "shr"))):
        return full(0, tensor_type(op).dtype, tensor_type(op).shape)
    if op.fn in NOTHING and known[1] == NOTHING[op.fn]:
        return _as_large(x, op)
    return _as_large(y, op) if known[0] == 0 and op.fn in ("add", "or", "xor") else None


def _as_large(x: Op, op: Op) -> Op:
    shape = tensor_type(op).shape
    return x if tensor_type(x).shape == shape else Expand(x, shape, ())


@rules.on(Transpose)
def transpose_in_place(op: Transpose) -> Op | None:
    return op.x if op.order == tuple(range(len(op.order))) else None


@rules.on(Transpose)
def transpose_twice(op: Transpose) -> Op | None:
    return Transpose(op.x.x, tuple(op.x.order[i] for i in op.order)) if isinstance(op.x, Transpose) else None


@rules.on(Reshape)
def reshape_to_same(op: Reshape) -> Op | None:
    return op.x if tensor_type(op.x).shape == op.shape else None


@rules.on(Reshape)
def reshape_twice(op: Reshape) -> Op | None:
    return Reshape(op.x.x, op.shape) if isinstance(op.x, Reshape) else None


@rules.on(Reshape)
def reshape_before_elementwise(op: Reshape) -> Op | None:
    """Push reshapes towards the inputs, whose views are free."""
    x = op.x
    if not tensor_type(x).shape or not reshapes_freely(x):
        return None  # a scalar, whose operands are no larger, is put in one place by the reshape
    if isinstance(x, Convert):
        return Convert(Reshape(x.x, op.shape), x.dtype, loc=x.loc)
    if isinstance(x, Map):
        args = tuple(Reshape(a, op.shape) if tensor_type(a).shape else a for a in x.args)
        return Map(x.fn, args, loc=x.loc)
    if isinstance(x, Expand) and not tensor_type(x.x).shape:
        return Expand(x.x, op.shape, ())
    return None


@rules.on(Expand)
def expand_inserting_ones(op: Expand) -> Op | None:
    """Expanding a reshaped value that only gained or lost dims of 1 expands the value itself."""
    if not isinstance(op.x, Reshape):
        return None
    inner, outer = tensor_type(op.x.x).shape, op.x.shape
    if len(squeezed(inner)) != len(inner) or squeezed(inner) != squeezed(outer):
        return None
    kept = tuple(d for d, s in zip(op.dims, outer, strict=True) if s != 1)
    return Expand(op.x.x, op.shape, kept)


# ---- reductions and contractions of nothing ------------------------------------------------------------------------------


@rules.on(Fold)
def fold_of_nothing(op: Fold) -> Op | None:
    t = tensor_type(op.x)
    if any(t.shape[a] == 0 for a in op.axes):
        return full(identity(op.fn, t.dtype), t.dtype, tensor_type(op).shape)
    return None


@rules.on(SegmentFold)
def segments_of_nothing(op: SegmentFold) -> Op | None:
    t = tensor_type(op.x)
    return full(identity(op.fn, t.dtype), t.dtype, tensor_type(op).shape) if t.shape[op.axis] == 0 else None


@rules.on(Fold)
def fold_over_ones(op: Fold) -> Op | None:
    t = tensor_type(op.x)
    kept = tuple(a for a in op.axes if t.shape[a] != 1)
    if len(kept) == len(op.axes):
        return None
    ones = [a for a in op.axes if t.shape[a] == 1]
    thin = Reshape(op.x, tuple(s for i, s in enumerate(t.shape) if i not in ones))
    left = {a: a - sum(o < a for o in ones) for a in kept}
    return Fold(op.fn, thin, tuple(left.values()), loc=op.loc) if kept else thin


@rules.on(ArgFold)
def position_of_extreme(op: ArgFold) -> Op | None:
    """The lowest coordinate whose element is the extreme; of elements that are NaN, the first, as in numpy."""
    t = tensor_type(op.x)
    if t.shape[op.axis] == 0:  # without a value, unless there is none to give
        return full(0, op.dtype, tensor_type(op).shape) if 0 in tensor_type(op).shape else None
    extreme = Fold(op.fn, op.x, (op.axis,), loc=op.loc)
    kept = tuple(i for i in range(t.rank) if i != op.axis)
    hit: Op = Map("eq", (op.x, Expand(extreme, t.shape, kept)), loc=op.loc)
    if DTYPES[t.dtype].is_float:
        hit = Map("or", (hit, Map("isnan", (op.x,), loc=op.loc)), loc=op.loc)
    wide = "i64" if DTYPES[op.dtype].bits == 64 else "i32"
    far = Literal(identity("min", wide), wide)
    places = Map("select", (hit, Iota(t.shape, op.axis, wide), far), loc=op.loc)
    return Convert(Fold("min", places, (op.axis,), loc=op.loc), op.dtype)


@rules.on(Cumulate)
def cumulate_ones(op: Cumulate) -> Op | None:
    """Along a dim of one element nothing is before an element, and it is the only one."""
    t = tensor_type(op.x)
    if t.shape[op.axis] != 1:
        return None
    return full(identity(op.fn, t.dtype), t.dtype, t.shape) if op.exclusive else op.x


@rules.on(AssociativeScan)
def scan_of_ones(op: AssociativeScan) -> Op | None:
    return op.xs[op.number] if tensor_type(op).shape[op.axis] == 1 else None


@rules.on(KeySort)
def sort_of_ones(op: KeySort) -> Op | None:
    return op.xs[op.number] if tensor_type(op.xs[0]).shape[op.axis] == 1 else None


@rules.on(Gather)
def gather_one_of_a_line(op: Gather) -> Op | None:
    """One element along ``axis`` for every other coordinate: whatever is not it becomes zero, and the sum is taken.

    No device gathers elements out of a tile, and whoever picks one of a row mostly reads the whole row anyway: then the
    two share a walk.  The coordinate is compared in i32, which holds every coordinate of an axis; what lies outside of
    [0, size) becomes -1, which none is equal to.
    """
    t, wanted = tensor_type(op.x), tensor_type(op.indices)
    if not op.zipped or wanted.shape[op.axis] != 1 or not (DTYPES[t.dtype].is_float or t.dtype in ("i32", "i64")):
        return None
    size = t.shape[op.axis]
    line = tuple(s for i, s in enumerate(t.shape) if i != op.axis)
    kept = tuple(i for i in range(t.rank) if i != op.axis)
    index = Reshape(op.indices, line)
    zero = Literal(0, wanted.dtype)
    inside = Map("and", (Map("ge", (index, zero), loc=op.loc), Map("lt", (index, DimSize(size, wanted.dtype)), loc=op.loc)))
    place = Convert(Map("select", (inside, index, Literal(-1, wanted.dtype)), loc=op.loc), "i32")
    wide = t.dtype if DTYPES[t.dtype].bits >= 32 else "f32"
    nothing = Literal(0.0 if DTYPES[wide].is_float else 0, wide)
    hit = Map("eq", (Iota(t.shape, op.axis), Expand(place, t.shape, kept)), loc=op.loc)
    found = Fold("sum", Map("select", (hit, Convert(op.x, wide), nothing), loc=op.loc), (op.axis,), loc=op.loc)
    fill = Literal(float(op.fill) if DTYPES[wide].is_float else int(op.fill), wide)
    picked = Convert(Map("select", (inside, found, fill), loc=op.loc), t.dtype)
    return Reshape(picked, tensor_type(op).shape)


@rules.on(Gather)
def gather_from_few(op: Gather) -> Op | None:
    """Of no elements nothing can be picked, and of one along ``axis`` there is no other to pick."""
    t, wanted = tensor_type(op.x), tensor_type(op.indices)
    shape = tensor_type(op).shape
    if t.shape[op.axis] == 0:
        return Expand(_fill(op), shape, ()) if shape else _fill(op)
    if t.shape[op.axis] != 1:
        return None
    rank = wanted.rank
    own = tuple(range(rank)) if op.zipped else tuple(range(op.axis, op.axis + rank))
    kept = tuple(d for d in range(t.rank) if d != op.axis)
    line = Reshape(op.x, tuple(t.shape[d] for d in kept))
    places = kept if op.zipped else tuple(d if d < op.axis else d + rank - 1 for d in kept)
    picked: Op = Expand(line, shape, places) if shape else line
    index = Expand(op.indices, shape, own) if shape else op.indices
    first = Map("eq", (index, Literal(0, wanted.dtype)), loc=op.loc)
    return Map("select", (first, picked, _fill(op)), loc=op.loc)


def _fill(op: Gather) -> Op:
    dtype = tensor_type(op).dtype
    kind = DTYPES[dtype]
    return Literal(float(op.fill) if kind.is_float else bool(op.fill) if dtype == "bool" else int(op.fill), dtype)


@rules.on(Gather)
def gather_before_conversion(op: Gather) -> Op | None:
    """What is gathered from a converted array is converted where it is used: the array need not be made anew."""
    if not isinstance(op.x, Convert) or op.x.dtype == "bool" or repr(float(op.fill)) != "0.0":
        return None
    return Convert(replace(op, x=op.x.x, fill=0), op.x.dtype, loc=op.x.loc)


@rules.on(SegmentContract)
def rows_are_numbered(op: SegmentContract) -> Op | None:
    """Which group every row is of: the last that has begun.  So many comparisons are little beside a product."""
    (rows, depth), count = tensor_type(op.lhs).shape, tensor_type(op.rhs).shape[0]
    if 0 in (rows, depth, count):
        return full(0.0 if DTYPES[op.dtype].is_float else 0, op.dtype, tensor_type(op).shape)
    if op.by_rows:
        return None
    dtype = tensor_type(op.groups).dtype
    shape = (rows, count + 1)
    begun = Map("le", (Expand(op.groups, shape, (1,)), Iota(shape, 0, dtype)), loc=op.loc)
    numbers = Map("sub", (Fold("sum", Convert(begun, "i32"), (1,), loc=op.loc), Literal(1, "i32")), loc=op.loc)
    return replace(op, groups=numbers, by_rows=True)


@rules.on(Contract)
def contract_nothing(op: Contract) -> Op | None:
    t = tensor_type(op.lhs)
    if any(t.shape[a] == 0 for a in op.lhs_axes):
        return full(0.0 if DTYPES[op.dtype].is_float else 0, op.dtype, tensor_type(op).shape)
    return None


@rules.on(Contract)
def contract_without_a_matrix(op: Contract) -> Op | None:
    """A contraction with a side that has no free dim, or nothing to sum over, is a product and a sum."""
    shape, sizes = tensor_type(op).shape, [tensor_type(op.lhs).shape[i] for i in op.lhs_axes]
    if op.lhs_free and op.rhs_free and any(size != 1 for size in sizes):
        return None
    wide = op.dtype if DTYPES[op.dtype].bits >= 32 else "f32"
    a, b = Convert(op.lhs, wide), Convert(op.rhs, wide)
    full_shape = (*shape, *sizes)
    n_batch, n_lhs = len(op.lhs_batch), len(op.lhs_free)

    def place(x: Op, batch: tuple[int, ...], free: tuple[int, ...], axes: tuple[int, ...], first: int) -> Op:
        order = (*batch, *free, *axes)
        dims = (*range(n_batch), *range(first, first + len(free)), *range(len(shape), len(full_shape)))
        return Expand(Transpose(x, order), full_shape, dims)

    left = place(a, op.lhs_batch, op.lhs_free, op.lhs_axes, n_batch)
    right = place(b, op.rhs_batch, op.rhs_free, op.rhs_axes, n_batch + n_lhs)
    terms: Op = Map("mul", (left, right), loc=op.loc)
    if sizes:
        terms = Fold("sum", terms, tuple(range(len(shape), len(full_shape))), loc=op.loc)
    return Convert(terms, op.dtype, loc=op.loc)

