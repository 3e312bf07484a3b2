"""Scatters in terms of what every language has.

Where a few updates meet a short line, every element of the result asks which of them are its own.  Otherwise updates are
sorted by their indices, stably, so that those of one element are a segment, in their order, and each element of the result
walks its own.  No element is written twice and nothing depends on which thread comes first.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir.core import Op, at
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, product
from portakern.ir.tensor import (
    Convert,
    DimSize,
    Expand,
    Fold,
    Gather,
    Iota,
    Literal,
    Map,
    PadWith,
    Reshape,
    Scatter,
    SegmentFold,
    Slice,
    Transpose,
    tensor_type,
)  # fmt: skip
from portakern.ir.tile import identity
from portakern.lower.orders import (
    Shape,
    back,
    chosen,
    compared,
    first_above,
    lines_of,
    lowest,
    picked,
    plus,
    sorted_lines,
    whole,
)

FEW = 32
"""Of so few updates, or so few elements, every one is compared with every other: less work than sorting them is."""

NUMBERED = 2**31 - 1
"""Elements of a result that i32 can number: sorted indices go on from line to line."""

FOLD = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def rules(picks: bool, run: int) -> Rules:
    """``picks``: loads may take single elements at coordinates that a kernel computes.  ``run``: as many elements of a line are
    sorted in a tile (0: none)."""
    found = Rules()

    @found.on(Scatter)
    def scattered(op: Scatter) -> Op | None:
        with at(op.loc):
            return lowered(op)

    def lowered(op: Scatter) -> Op:
        x, indices, updates = (lines_of(o, op.axis) for o in _as_large(op))
        *lead, size = tensor_type(x).shape
        count = tensor_type(indices).shape[-1]
        if 0 in (*lead, size, count):
            return op.x
        few = isinstance(size, int) and isinstance(count, int) and min(size, count) <= FEW
        elements = product((*lead, size + 1))
        large = isinstance(elements, int) and elements > NUMBERED
        if few or large or not (picks and run and isinstance(count, int)):
            return back(_by_owner(op.mode, x, indices, updates), op.axis)
        return back(_by_runs(op.mode, x, indices, updates, run), op.axis)

    return found


def _by_owner(mode: str, x: Op, indices: Op, updates: Op) -> Op:
    """Every element of the result takes what is meant for it."""
    t, count = tensor_type(x), tensor_type(indices).shape[-1]
    n = t.rank - 1
    shape = (*t.shape, count)
    places = (*range(n), n + 1)
    index = Expand(compared(indices), shape, places)
    hit = Map("eq", (index, Iota(shape, n, tensor_type(index).dtype)))
    if mode == "set":
        last = Fold("max", chosen(hit, Iota(shape, n + 1), Literal(-1, "i32")), (n + 1,))
        given = compared(updates)
        own = Map("eq", (Iota(shape, n + 1), Expand(last, shape, tuple(range(n + 1)))))
        nothing = Literal(lowest(tensor_type(given).dtype), tensor_type(given).dtype)
        value = Fold("max", chosen(own, Expand(given, shape, places), nothing), (n + 1,))
        return chosen(Map("ge", (last, Literal(0, "i32"))), Convert(value, t.dtype), x)
    wide = _wide(t.dtype)
    mine = chosen(hit, Expand(Convert(updates, wide), shape, places), Literal(identity(FOLD[mode], wide), wide))
    return Convert(Map(mode, (Convert(x, wide), Fold(FOLD[mode], mine, (n + 1,)))), t.dtype)


def _by_runs(mode: str, x: Op, indices: Op, updates: Op, run: int) -> Op:
    """Every element of the result takes the run of its sorted updates.  Indices that are the same for all lines are sorted
    once."""
    t = tensor_type(x)
    once = _of_all_lines(indices)
    keys = _keys(indices if once is None else once, t.shape[-1])
    if mode == "set":
        return _last_of_runs(x, *sorted_lines(keys, run), updates, once is not None)
    wide = _wide(t.dtype)
    given = Convert(updates, wide)
    shared = once is not None or t.rank == 1
    folded = (_together if shared else _line_by_line)(FOLD[mode], keys, given, t.shape, run)
    return Convert(Map(mode, (Convert(x, wide), folded)), t.dtype)


def _last_of_runs(x: Op, index: Op, order: Op, updates: Op, shared: bool) -> Op:
    t, count = tensor_type(x), tensor_type(updates).shape[-1]
    size, axis = t.shape[-1], t.rank - 1
    place = Iota((*tensor_type(index).shape[:-1], size), tensor_type(index).rank - 1)
    last = Map("sub", (first_above(index, count, place), Literal(1, "i32")))
    hit = Map("eq", (picked(index, last, -1), place))
    value = Gather(updates, picked(order, last), axis, not shared)
    return chosen(Expand(hit, t.shape, (axis,)) if shared else hit, value, x)


def _together(fn: str, keys: Op, updates: Op, shape: Shape, run: int) -> Op:
    """What updates along one line of ``keys`` give for each element of lines of ``shape``, which go side by side."""
    axis = tensor_type(updates).rank - 1
    index, order = sorted_lines(keys, run)
    return SegmentFold(fn, Gather(updates, order, axis), _begins(index, shape[-1]), axis)


def _line_by_line(fn: str, keys: Op, updates: Op, shape: Shape, run: int) -> Op:
    """The same where every line has keys of its own: lines lie behind each other as one, whose numbers go on from line to line.
    A line has one element more, for updates that go nowhere."""
    *lead, size = shape
    long = size + 1
    index, order = sorted_lines(_numbered(keys, long), run)
    lines, count = product(tuple(lead)), tensor_type(keys).shape[-1]
    index, given = (Reshape(a, (lines * count,)) for a in (index, picked(updates, order)))
    made = Reshape(SegmentFold(fn, given, _begins(index, lines * long), 0), (*lead, long))
    return Slice(made, (0,) * len(shape), shape, (1,) * len(shape))


def _numbered(keys: Op, long: Size) -> Op:
    """``keys`` below ``long`` of all lines as numbers that ascend from one line to the next."""
    shape = tensor_type(keys).shape
    for axis in range(len(shape) - 1):
        step = DimSize(product((*shape[axis + 1 : -1], long)), "i32")
        keys = Map("add", (keys, Map("mul", (Iota(shape, axis), step))))
    return keys


def _begins(index: Op, size: Size) -> Op:
    """Where the run of each of ``size`` elements begins in a line of sorted indices, and where the last one ends."""
    return first_above(index, tensor_type(index).shape[0], plus(Iota((size + 1,), 0), -1))


def _of_all_lines(indices: Op) -> Op | None:
    """The one line that all lines of ``indices`` repeat; ``None`` where they are different."""
    dim = tensor_type(indices).rank - 1
    while isinstance(indices, Transpose | Expand):
        if isinstance(indices, Expand):
            if indices.dims == (dim,) and tensor_type(indices.x).shape == (indices.shape[dim],):
                return indices.x if dim or len(indices.shape) > 1 else None
            if dim not in indices.dims:
                return None
            dim = indices.dims.index(dim)
        elif isinstance(indices, Transpose):
            dim = indices.order[dim]
        indices = indices.x
    return None


def _keys(indices: Op, size: Size) -> Op:
    """Indices as i32; those of no element are the last of all."""
    end = DimSize(size, tensor_type(indices).dtype)
    inside = Map("and", (Map("ge", (indices, whole(0, indices))), Map("lt", (indices, end))))
    return chosen(inside, Convert(indices, "i32"), DimSize(size, "i32"))


def _wide(dtype: str) -> str:
    return dtype if DTYPES[dtype].bits >= 32 else "f32" if DTYPES[dtype].is_float else "i32"


def _as_large(op: Scatter) -> tuple[Op, Op, Op]:
    """The operands, with updates that go nowhere where there are none for lines of ``x``."""
    wanted, have = tensor_type(op.x).shape, tensor_type(op.indices).shape
    more = tuple(0 if d == op.axis else a - b for d, (a, b) in enumerate(zip(wanted, have, strict=True)))
    if not any(m != 0 for m in more):
        return op.x, op.indices, op.updates
    op.check(all(isinstance(m, int) and m >= 0 for m in more), f"updates of {have} do not go into {wanted}")
    none = tuple(0 for _ in more)
    high = tuple(int(m) for m in more)  # type: ignore[arg-type]
    zero = 0.0 if DTYPES[tensor_type(op.updates).dtype].is_float else 0
    return op.x, PadWith(op.indices, none, high, -1), PadWith(op.updates, none, high, zero)
