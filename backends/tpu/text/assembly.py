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
    if known(array.dtype).is_float and not array.init:
        # Adding -0.0 changes nothing, not even a zero's sign.
        each = [_around(n, p, shape, "-0.0") for n, p in zip(names, pieces, strict=True)]
        return [f"{array.name} = {each[0]}", *(f"{array.name} += {text}" for text in each[1:])]
    lines = [f"{array.name} = {filled(array)}"]
    for name, piece in zip(names, pieces, strict=True):
        if all(step == 1 for _, step, _ in piece.places):
            at = tuple_text(tuple(str(p[0]) for p in piece.places))
            lines.append(f"{array.name} = jax.lax.dynamic_update_slice({array.name}, {name}, {at})")
        else:
            lines.append(f"{array.name} = {array.name}.at[{', '.join(map(_slice, piece.places, shape))}].set({name})")
    return lines


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
    ends = [size - (offset + step * (n - 1) + 1) for (offset, step, n), size in zip(piece.places, shape, strict=True)]
    if all(step == 1 for _, step, _ in piece.places):
        pads = tuple_text(tuple(f"({offset}, {end})" for (offset, _, _), end in zip(piece.places, ends, strict=True)))
        return f"jnp.pad({name}, {pads}{'' if fill in ('0', '0.0') else f', constant_values={fill}'})"
    between = tuple(f"({offset}, {end}, {step - 1})" for (offset, step, _), end in zip(piece.places, ends, strict=True))
    return f"jax.lax.pad({name}, jnp.asarray({fill}, {name}.dtype), {tuple_text(between)})"


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
    return f"{offset}:{offset + step * (n - 1) + 1}" + (f":{step}" if step > 1 else "")
