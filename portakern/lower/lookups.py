"""Elements of a short line, or of one line each, at places that follow from floats or are many, where loads pick no single
elements.

A language that looks indices up in a memory of their own, before a block is read, has them as arrays of integers and simple
arithmetic on these.  What is computed of a tile of floats, as a step of a search is, is too late for that.  And of many places
each would be a step of a grid, if that memory has room for them at all.  Then every element of the line is compared with the
place, and the one that is there is taken.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, product
from portakern.ir.tensor import Convert, Expand, Fold, Gather, Iota, Literal, Map, Reshape, Slice, Transpose, tensor_type

rules = Rules()

SHORT = 4096
"""Elements of a line that are all compared: a step of a grid for every place takes about as long as 4096 elements, and the
places must fit into scalar memory."""

FEW = 64
"""Places that may be looked up one after the other: some 20 microseconds of grid steps."""


@rules.on(Gather)
def looked_up(op: Gather) -> Op | None:
    line, index = tensor_type(op.x), tensor_type(op.indices)
    size, dtype = line.shape[op.axis], DTYPES[line.dtype]
    if not (op.zipped or line.rank == 1) or not isinstance(size, int) or not 1 < size <= SHORT:
        return None
    if not (dtype.is_float or dtype.name in ("i32", "i16", "i8", "u8")) or not (_of_floats(op.indices) or _many(index.shape)):
        return None
    wide = dtype.name if dtype.bits >= 32 else "f32" if dtype.is_float else "i32"
    shape, last = (*index.shape, size), index.rank
    hit = Map("eq", (Expand(op.indices, shape, tuple(range(last))), Iota(shape, last, index.dtype)), loc=op.loc)
    value = Convert(_beside(op, shape), wide)
    nothing = Literal(0.0 if dtype.is_float else 0, wide)
    found = Fold("sum", Map("select", (hit, value, nothing), loc=op.loc), (last,), loc=op.loc)
    return Convert(found if repr(float(op.fill)) == "0.0" else _or_fill(op, found, size), line.dtype)


def _or_fill(op: Gather, found: Op, size: int) -> Op:
    """``found`` where a place is one of the line, else ``fill``."""
    have, wide = tensor_type(found), DTYPES[tensor_type(found).dtype]

    def whole(value: float, dtype: str) -> Op:
        return Expand(Literal(value, dtype), have.shape, ())

    index = tensor_type(op.indices).dtype
    inside = Map("and", (Map("ge", (op.indices, whole(0, index))), Map("lt", (op.indices, whole(size, index)))), loc=op.loc)
    fill = float(op.fill) if wide.is_float else int(op.fill)
    return Map("select", (inside, found, whole(fill, wide.name)), loc=op.loc)


def _many(shape: tuple[Size, ...]) -> bool:
    places = product(shape)
    return not isinstance(places, int) or places > FEW


@rules.on(Gather)
def at_a_number(op: Gather) -> Op | None:
    """One element of a line for all places: a part of it, so that nothing is picked."""
    (size, *more), at = tensor_type(op.x).shape, number(op.indices)
    if more or op.zipped or at is None or not isinstance(size, int) or not 0 <= at < size:
        return None
    there = Slice(op.x, (int(at),), (int(at) + 1,), (1,), loc=op.loc)
    return Expand(Reshape(there, ()), tensor_type(op.indices).shape, ())


def number(op: Op) -> float | None:
    """The number that all elements of ``op`` are, where it is known."""
    if isinstance(op, Expand):
        return number(op.x)
    if isinstance(op, Map) and op.fn == "add":
        parts = [number(x) for x in op.args]
        return None if None in parts else sum(p for p in parts if p is not None)
    return op.value if isinstance(op, Literal) else None


def _beside(op: Gather, shape: tuple[Size, ...]) -> Op:
    """The lines [*index.shape, size], each at every place that it is looked up for."""
    last = len(shape) - 1
    if not op.zipped:
        return Expand(op.x, shape, (last,))
    others = tuple(d for d in range(last) if d != op.axis)
    lines = op.x if op.axis == last - 1 else Transpose(op.x, (*others, op.axis))
    return Expand(lines, shape, (*others, last))


def _of_floats(op: Op) -> bool:
    """Whether floats decide element by element what the integers ``op`` are."""
    waiting, seen = [op], {op}
    while waiting:
        found = waiting.pop()
        if DTYPES[tensor_type(found).dtype].is_float:
            return True
        more = [found.indices] if isinstance(found, Gather) else found.operands if isinstance(found, _ELEMENTWISE) else ()
        waiting += [o for o in more if o not in seen]
        seen.update(more)
    return False


_ELEMENTWISE = Map | Convert | Expand | Reshape | Transpose | Slice
