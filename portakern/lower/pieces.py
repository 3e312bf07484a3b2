"""Arrays made of pieces: pads and concatenations become :class:`Assemble`, and what is done to the whole is done to each."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.ir.core import Arg, Op
from portakern.ir.functions import COMPARE
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.ir.tensor import (
    Assemble,
    Concat,
    Convert,
    Expand,
    Literal,
    Map,
    PadWith,
    Slice,
    Transpose,
    Windows,
    tensor_type,
)  # fmt: skip

views = Rules()
"""What arrays of pieces are, and views of them."""

work = Rules()
"""Elementwise work on arrays of pieces."""

Place = tuple[tuple[Size, ...], tuple[int, ...]]
"""Offsets and steps of a piece, one for each dim."""


def assembled(parts: Sequence[Op], shape: tuple[Size, ...], places: Sequence[Place], fill: float | int | bool | None,
              like: Op) -> Assemble:
    """The array of ``parts`` at ``places``, with the location of ``like``."""
    offsets = tuple(o for place, _ in places for o in place)
    steps = tuple(s for _, each in places for s in each)
    return Assemble(tuple(parts), shape, offsets, steps, fill, loc=like.loc)


@views.on(PadWith)
def pad_is_a_piece(op: PadWith) -> Op | None:
    if not any(op.low) and not any(op.high):
        return op.x
    shape = tensor_type(op).shape
    if 0 in tensor_type(op.x).shape:
        return Expand(Literal(op.value, tensor_type(op).dtype), shape, ())
    return assembled([op.x], shape, [(op.low, (1,) * len(shape))], op.value, op)


@views.on(Concat)
def concat_is_pieces(op: Concat) -> Op | None:
    shape = tensor_type(op).shape
    parts: list[Op] = []
    places: list[Place] = []
    at: Size = 0
    for part in op.parts:
        size = tensor_type(part).shape[op.axis]
        if size != 0:
            parts.append(part)
            places.append((tuple(at if d == op.axis else 0 for d in range(len(shape))), (1,) * len(shape)))
        at = at + size
    if len(parts) < 2:
        return parts[0] if parts else op.parts[0]
    return assembled(parts, shape, places, None, op)


@views.on(Assemble)
def the_whole_in_one_piece(op: Assemble) -> Op | None:
    (offsets, steps), *more = op.places
    whole = tensor_type(op.parts[0]).shape == op.shape and all(o == 0 for o in offsets) and all(s == 1 for s in steps)
    return op.parts[0] if whole and not more else None


@views.on(Assemble)
def without_empty_pieces(op: Assemble) -> Op | None:
    kept = [(p, place) for p, place in zip(op.parts, op.places, strict=True) if 0 not in tensor_type(p).shape]
    if len(kept) == len(op.parts) or 0 in op.shape:
        return None
    if not kept and op.fill is not None:
        return Expand(Literal(op.fill, tensor_type(op).dtype), op.shape, ())
    return assembled([p for p, _ in kept], op.shape, [place for _, place in kept], op.fill, op)


@views.on(Windows)
def windows_along_nothing(op: Windows) -> Op | None:
    return None if op.dims else op.x


@views.on(Assemble)
def pieces_of_pieces(op: Assemble) -> Op | None:
    """A piece that is made of pieces itself, and whose rest is what lies around it, is nothing but those."""
    parts: list[Op] = []
    places: list[Place] = []
    fill = op.fill
    for part, place in zip(op.parts, op.places, strict=True):
        if isinstance(part, Assemble) and (part.fill is None or fill is None or _same(part.fill, fill)):
            fill = part.fill if fill is None else fill
            parts += part.parts
            places += [_within(inner, place) for inner in part.places]
        else:
            parts.append(part)
            places.append(place)
    return assembled(parts, op.shape, places, fill, op) if len(parts) > len(op.parts) or parts != list(op.parts) else None


def _same(a: float | int | bool, b: float | int | bool) -> bool:
    return repr(a) == repr(b)


def _within(inner: Place, outer: Place) -> Place:
    """The place in the whole array of what lies at ``inner`` in the piece at ``outer``."""
    offsets = tuple(o + s * i for o, s, i in zip(*outer, inner[0], strict=True))
    return offsets, tuple(a * b for a, b in zip(outer[1], inner[1], strict=True))


@views.on(Transpose)
def transpose_of_pieces(op: Transpose) -> Op | None:
    x = op.x
    if not isinstance(x, Assemble):
        return None
    places = [(tuple(o[d] for d in op.order), tuple(s[d] for d in op.order)) for o, s in x.places]
    return assembled([Transpose(p, op.order, loc=op.loc) for p in x.parts], tensor_type(op).shape, places, x.fill, x)


@views.on(Slice)
def slice_of_a_piece(op: Slice) -> Op | None:
    """A slice that lies inside one piece is a slice of that."""
    x = op.x
    if not isinstance(x, Assemble):
        return None
    for part, (offsets, steps) in zip(x.parts, x.places, strict=True):
        starts = [lo - o for lo, o in zip(op.starts, offsets, strict=True)]
        stops = [hi - o for hi, o in zip(op.stops, offsets, strict=True)]
        inside = all(isinstance(lo, int) and lo >= 0 for lo in starts) and all(
            isinstance(over := hi - n, int) and over <= 0 for hi, n in zip(stops, tensor_type(part).shape, strict=True))
        if all(s == 1 for s in steps) and inside:
            return Slice(part, tuple(starts), tuple(stops), op.steps, loc=op.loc)
    return None


@work.on(Convert)
def convert_pieces(op: Convert) -> Op | None:
    x = op.x
    if not isinstance(x, Assemble):
        return None
    fill = None if x.fill is None else _computed(Convert(Literal(x.fill, tensor_type(x).dtype), op.dtype))
    if x.fill is not None and fill is None:
        return None
    return assembled([Convert(p, op.dtype, loc=op.loc) for p in x.parts], x.shape, x.places, fill, x)


@work.on(Map)
def map_pieces(op: Map) -> Op | None:
    """Elementwise work on an array made of pieces is done on each: then whoever makes a piece stores it finished.

    What the array meets is cut where the pieces lie, unless that would compute a product or a reduction anew for each: so
    ``x * cos + concat([-x[n:], x[:n]]) * sin``, which turns the elements of ``x`` two by two, is two finished halves.
    """
    first = next((a for a in op.args if isinstance(a, Assemble)), None)
    if first is None or not all(_goes_with(a, first) for a in op.args):
        return None
    fill = None
    if first.fill is not None:
        fill = _computed(Map(op.fn, tuple(_fill(a) for a in op.args)))
        if fill is None:
            return None
    parts = [Map(op.fn, tuple(_at(a, first, n) for a in op.args), loc=op.loc) for n in range(len(first.parts))]
    return assembled(parts, first.shape, first.places, fill, op)


def _goes_with(a: Op, first: Assemble) -> bool:
    if isinstance(a, Assemble):
        shapes = [tensor_type(p).shape for p in a.parts] == [tensor_type(p).shape for p in first.parts]
        return shapes and a.places == first.places and (a.fill is None) == (first.fill is None)
    if not tensor_type(a).shape:
        return first.fill is None or isinstance(a, Literal)
    return first.fill is None and _may_be_cut(a, first)


def _may_be_cut(op: Op, first: Assemble) -> bool:
    """Whether ``op`` is elementwise work on inputs and on what the pieces of ``first`` are made of by themselves: a product
    that they take slices of is whole anyway."""
    bases: set[Op] | None = None
    frontier, seen = [op], set[Op]()
    while frontier:
        x = frontier.pop()
        if x in seen or not tensor_type(x).shape or is_light(x):
            continue
        seen.add(x)
        bases = _sliced_in(first) if bases is None else bases
        if x in bases:
            continue
        if not isinstance(x, Map | Convert):
            return False
        frontier += x.operands
    return True


def _sliced_in(first: Assemble) -> set[Op]:
    """The values of which elementwise work takes slices for the pieces of ``first``."""
    found, frontier, seen = set[Op](), [*first.parts], set[Op]()
    while frontier:
        op = frontier.pop()
        if op in seen:
            continue
        seen.add(op)
        if isinstance(op, Slice):
            found.add(op.x)
        elif isinstance(op, Map | Convert):
            frontier += op.operands
    return found


def is_light(op: Op) -> bool:
    """Whether ``op`` is an input, seen from any side and in any dtype."""
    while isinstance(op, Transpose | Expand | Convert | Slice):
        op = op.x
    return isinstance(op, Arg | Literal)


def _at(a: Op, first: Assemble, number: int) -> Op:
    """The part of ``a`` that goes with piece ``number`` of ``first``."""
    if isinstance(a, Assemble):
        return a.parts[number]
    if not tensor_type(a).shape:
        return a
    offsets, steps = first.places[number]
    sizes = tensor_type(first.parts[number]).shape
    ends = tuple(o + s * (n - 1) + 1 for o, s, n in zip(offsets, steps, sizes, strict=True))
    return _cut(a, offsets, ends, steps)


def _cut(op: Op, starts: tuple[Size, ...], stops: tuple[Size, ...], steps: tuple[int, ...]) -> Op:
    """The slice of ``op``, whose elementwise work is done behind it."""
    match op:
        case Map(args=args):
            made = (_cut(a, starts, stops, steps) if tensor_type(a).shape else a for a in args)
            return Map(op.fn, tuple(made), loc=op.loc)
        case Convert(x=x, dtype=dtype):
            return Convert(_cut(x, starts, stops, steps), dtype, loc=op.loc)
    return Slice(op, starts, stops, steps)


def _fill(a: Op) -> Literal:
    if isinstance(a, Assemble):
        assert a.fill is not None
        return Literal(a.fill, tensor_type(a).dtype)
    assert isinstance(a, Literal)
    return a


def _computed(op: Map | Convert) -> float | int | bool | None:
    """The value of an elementwise operation on constants, where float64 says what any target would: a fill holds it exactly."""
    from portakern.ir import oracle

    exact = isinstance(op, Convert) or op.fn in _EXACT
    if not exact:
        return None
    value = oracle.apply(op, [oracle.apply(o, []) for o in op.operands])
    return value.item()


_EXACT = {"select", "max", "min", "neg", "abs", "and", "or", "not", *COMPARE}
"""Functions of constants whose result no rounding changes."""
