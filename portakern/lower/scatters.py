"""Scatters in terms of what every language has.

Where a few updates meet a short line, every element of the result asks which of them are its own.  Otherwise updates are
sorted by their indices, stably, so that those of one element lie beside each other in their order; what a run of them gives
together is a scan that begins anew at every new index, and each element of the result looks up the end of its run.  No element
is written twice and nothing depends on which thread comes first.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir.core import Arg, Block, Op, Yield, at
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.ir.tensor import (
    AssociativeScan,
    Convert,
    DimSize,
    Expand,
    Fold,
    Gather,
    Iota,
    Literal,
    Map,
    PadWith,
    Scatter,
    TensorType,
    Transpose,
    tensor_type,
)  # fmt: skip
from portakern.ir.tile import identity
from portakern.lower.orders import back, chosen, compared, first_above, lines_of, lowest, picked, sorted_lines, whole

FEW = 32
"""Of so few updates, or so few elements, every one is compared with every other: less work than sorting them is."""

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
        if few or not (picks and run and isinstance(count, int)):
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
    """Every element of the result looks up what the run of its updates gives.  Indices that are the same for all lines are
    sorted once."""
    t, count = tensor_type(x), tensor_type(indices).shape[-1]
    size, wide, axis = t.shape[-1], _wide(t.dtype), t.rank - 1
    once = _of_all_lines(indices)
    keys = _keys(indices if once is None else once, size)
    index, order = sorted_lines(keys, run)
    place = Iota((*tensor_type(keys).shape[:-1], size), tensor_type(keys).rank - 1)
    last = Map("sub", (first_above(index, count, place), Literal(1, "i32")))
    hit = Map("eq", (picked(index, last, -1), place))

    def of_lines(line: Op, at: Op) -> Op:
        return Gather(line, at, axis, once is None)

    def spread(line: Op, length: Size) -> Op:
        return line if once is None else Expand(line, (*t.shape[:-1], length), (axis,))

    given = of_lines(updates, order)
    if mode == "set":
        return chosen(spread(hit, size), of_lines(given, last), x)
    given = AssociativeScan((spread(index, count), Convert(given, wide)), axis, _within_a_run(mode, wide), 1)
    both = Map(mode, (Convert(x, wide), of_lines(given, last)))
    return Convert(chosen(spread(hit, size), both, Convert(x, wide)), t.dtype)


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


def _within_a_run(mode: str, dtype: str) -> Block:
    """What two neighbouring parts of sorted updates give: the last index, and the value of its run."""
    types = (TensorType((), "i32"), TensorType((), dtype))
    parts = [(f"{name}_{side}", of) for side in ("left", "right") for name, of in zip(("index", "value"), types, strict=True)]
    index, value, next_index, next_value = args = tuple(Arg(*part) for part in parts)
    same, both = Map("eq", (index, next_index)), Map(mode, (value, next_value))
    joined = chosen(same, both, next_value)
    return Block(args, (same, both, joined, Yield((next_index, joined))))


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
