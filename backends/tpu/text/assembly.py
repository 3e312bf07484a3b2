"""Arrays put together of pieces on the host, as text: pads, concatenations, interleaved phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portakern.dtypes import dtype as known
from portakern.ir.program import Array
from portakern.ir.size import Size
from portakern.ir.tile import BufferType

from ..planning.blocks import tuple_text
from ..planning.pieces import Assembly, Piece, Place
from ..syntax import operations


def assembled(assembly: Assembly, arrays: Mapping[str, Array]) -> list[str]:
    """The statements that put the pieces of an array together, each read once."""
    array, pieces = assembly.array, assembly.pieces
    shape = shape_of(array)
    names = [_in_place(p, arrays[p.name]) for p in pieces]
    if len(pieces) == 1:
        return [f"{array.name} = {_around(names[0], pieces[0], shape, fill_value(array.init or 0))}"]
    row = _side_by_side(pieces, shape)
    if row is not None:
        axis, order = row
        return [f"{array.name} = jnp.concatenate([{', '.join(names[n] for n in order)}], axis={axis})"]
    if not array.init:
        fill, joins = _nothing(array.dtype)
        each = [_around(n, p, shape, fill) for n, p in zip(names, pieces, strict=True)]
        return [f"{array.name} = {each[0]}", *(f"{array.name} {joins} {text}" for text in each[1:])]
    lines = [f"{array.name} = {filled(array)}"]
    for name, piece in zip(names, pieces, strict=True):
        if all(step == 1 for _, step, _ in piece.places):
            at = tuple_text(tuple(str(p[0]) for p in piece.places))
            lines.append(f"{array.name} = jax.lax.dynamic_update_slice({array.name}, {name}, {at})")
        else:
            lines.append(f"{array.name} = {array.name}.at[{', '.join(map(_slice, piece.places, shape))}].set({name})")
    return lines


def _nothing(dtype: str) -> tuple[str, str]:
    """What changes no value of ``dtype``, and the operator by which it does not: pieces overlap nowhere, and libtpu takes
    minutes over a scatter of strided ones.  Adding -0.0 does not even change the sign of a zero."""
    if known(dtype).is_float:
        return "-0.0", "+="
    return ("0", "+=") if known(dtype).is_int else ("False", "|=")


def filled(array: Array) -> str:
    """An array that holds its first value everywhere."""
    shape = tuple_text(tuple(map(str, shape_of(array))))
    return f"jnp.full({shape}, {fill_value(array.init or 0)}, {operations.JNP[array.dtype]})"


def fill_value(value: float | int | bool) -> str:
    text = repr(value)
    return f'float("{text}")' if text.strip("-") in ("inf", "nan") else text


def shape_of(array: Array) -> tuple[Size, ...]:
    return array.type.shape if isinstance(array.type, BufferType) else ()


def _in_place(piece: Piece, array: Array) -> str:
    text, have = piece.name, shape_of(array)
    if piece.part:
        text = text if have == piece.seen else f"{text}.reshape({', '.join(map(str, piece.seen))})"
        text = f"{text}[{', '.join(map(_slice, piece.part, piece.seen))}]"
        have = tuple(n for _, _, n in piece.part)
    want = tuple(n for _, _, n in piece.places)
    return text if have == want else f"{text}.reshape({', '.join(map(str, want))})"


def _around(name: str, piece: Piece, shape: Sequence[Size], fill: str) -> str:
    """``name`` with ``fill`` around it and between its elements."""
    ends = [size - _end(place) for place, size in zip(piece.places, shape, strict=True)]
    if all(step == 1 for _, step, _ in piece.places):
        pads = tuple_text(tuple(f"({offset}, {end})" for (offset, _, _), end in zip(piece.places, ends, strict=True)))
        return f"jnp.pad({name}, {pads}{'' if fill in ('0', '0.0') else f', constant_values={fill}'})"
    between = tuple(f"({offset}, {end}, {step - 1})" for (offset, step, _), end in zip(piece.places, ends, strict=True))
    text = f"jax.lax.pad({name}, jnp.asarray({fill}, {name}.dtype), {tuple_text(between)})"
    # Around a piece that turns out to have no elements it pads as if there were one, and what is between elements is too much.
    cuts = [f":{size}" if step > 1 and not isinstance(n, int) else ":"
            for (_, step, n), size in zip(piece.places, shape, strict=True)]  # fmt: skip
    return text if all(c == ":" for c in cuts) else f"{text}[{', '.join(cuts)}]"


def _end(place: Place) -> Size:
    """Where a piece ends along one dim: after its last element."""
    offset, step, n = place
    return offset if n == 0 else offset + step * (n - 1) + 1


def _side_by_side(pieces: Sequence[Piece], shape: Sequence[Size]) -> tuple[int, list[int]] | None:
    """The axis along which the pieces lie one after the other and make up the array, and their order."""
    for axis, size in enumerate(shape):
        if any(not _is_whole(p, shape, axis) for p in pieces):
            continue
        starts = {p.places[axis][0]: n for n, p in enumerate(pieces)}
        order: list[int] = []
        at: Size = 0
        while at in starts and len(order) < len(pieces):
            order.append(starts[at])
            at = at + pieces[order[-1]].places[axis][2]
        if at == size and len(order) == len(pieces):
            return axis, order
    return None


def _is_whole(piece: Piece, shape: Sequence[Size], axis: int) -> bool:
    """Whether a piece is everything along all axes but ``axis``, and without steps there."""
    whole = all(place == (0, 1, size) for d, (place, size) in enumerate(zip(piece.places, shape, strict=True)) if d != axis)
    return whole and piece.places[axis][1] == 1


def _slice(place: Place, size: Size) -> str:
    offset, step, n = place
    if place == (0, 1, size):
        return ":"
    # Of an open n, which may be 0, the end is that of the last step, not of the last element: it would lie before the start.
    end = _end(place) if isinstance(n, int) else offset + step * n
    return f"{offset}:{end}" + (f":{step}" if step > 1 else "")
