"""Windows whose taps lie along a tile: as they are stored one by one, or summed over their positions.

No block begins inside a native tile, and none has elements that lie some apart, so what belongs to a tap is loaded for each tap
by itself, and put where the tap is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from portakern.dtypes import DTYPES
from portakern.ir.core import Block, Op
from portakern.ir.size import Size, divides
from portakern.ir.tile import Broadcast, Cast, Compare, Const, Coord, Index, Kernel, Load, Select, Term, buffer_type, tile_type

MOST = 64
"""Taps of a window that are loaded one by one."""


def with_taps_one_by_one(kernel: Kernel) -> Kernel:
    """``kernel`` whose loads have taps along a tile only where the positions of its windows lie along it, too."""
    env: dict[Op, Op] = {}

    def visit(block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            new = op.remap(lambda o: env.get(o, o), visit)
            made = _taken_apart(new, kernel) if isinstance(new, Load) else [new]
            env[op] = made[-1]
            ops += made
        return Block(block.args, tuple(ops))

    body = visit(kernel.body)
    return replace(kernel, body=body) if any(env[op] is not op for op in env) else kernel


def _taken_apart(op: Load, kernel: Kernel) -> list[Op]:
    """What is in the place of ``op``, each operation after its operands: itself alone where it has no such taps."""
    sizes = buffer_type(op.buffer).shape
    taps = next((a for i, size in zip(op.indices, sizes, strict=True) if (a := _taps_of(i, size, op, kernel))), None)
    if taps is None:
        return [op]
    dims = tuple(d for d in op.dims if d[0] != taps.axis)
    coord = Coord(taps.axis, tuple(d for d in op.dims if d[0] == taps.axis), "i32")
    where = Broadcast(coord, op.dims)
    made: list[Op] = [coord, where]
    dtype = tile_type(op).dtype
    chosen_in = _of_32_bits(dtype)
    total: Op | None = None
    if op.pad is not None:  # what the tile has beyond the taps
        pad = Const(op.pad, chosen_in)
        total = Broadcast(pad, op.dims)
        made += [pad, total]
    for number in range(int(kernel.axis[taps.axis].extent)):  # type: ignore[arg-type]
        indices = tuple(_at(i, taps, number) for i in op.indices)
        row: Op = replace(op, indices=indices, dims=dims)
        made += [row] if chosen_in == dtype else [row, row := Cast(row, chosen_in)]
        value = Broadcast(row, op.dims)
        made.append(value)
        if total is None:
            total = value
            continue
        which = Const(number, "i32")
        chosen = Compare("eq", where, which)
        total = Select(chosen, value, total)
        made += [which, chosen, total]
    made += [] if chosen_in == dtype else [Cast(made[-1], dtype)]
    assert tile_type(made[-1]) == tile_type(op)
    return made


def _of_32_bits(dtype: str) -> str:
    """What elements are chosen in: Mosaic (libtpu 0.0.52) has no choice between rows of 16 bits that were lanes of a line."""
    kind = DTYPES[dtype]
    return dtype if kind.bits >= 32 or dtype == "bool" else "f32" if kind.is_float else "i32"


def _taps_of(index: Index, size: Size, op: Load, kernel: Kernel) -> Term | None:
    """The taps of ``index``, in a dim of ``size``, that lie along the tile where its positions do not, or so that they cannot
    be put side by side with them."""
    along = [t for t in index.terms if t.axis in tile_type(op).axes]
    if len(index.terms) < 2 or not along or len(op.dims) < 2 or op.gathers:
        return None
    if any(kernel.axis[t.axis].kind == "loop" for t in index.terms if t not in along):
        return None  # taps that are walked, or unrolled (:mod:`.taps`)
    if _is_side_by_side(index, along, size, kernel):
        return None
    few = [t for t in along if _is_covered(t, kernel) and int(kernel.axis[t.axis].extent) <= MOST]  # type: ignore[arg-type]
    return min(few, key=lambda t: int(kernel.axis[t.axis].extent)) if few else None  # type: ignore[arg-type]


def _is_covered(term: Term, kernel: Kernel) -> bool:
    axis = kernel.axis[term.axis]
    return isinstance(axis.extent, int) and axis.extent <= axis.tile and (term.div, term.mod) == (1, 0)


def _is_side_by_side(index: Index, along: Sequence[Term], size: Size, kernel: Kernel) -> bool:
    """Whether taps one after the other are the channels of rows of positions (:mod:`.windows`)."""
    inner = next((t for t in along if t.scale == 1 and _is_covered(t, kernel)), None)
    if inner is None or len(along) != 2 or len(index.terms) != 2 or not isinstance(index.offset, int):
        return False
    outer = next(t for t in along if t is not inner)
    if not isinstance(outer.scale, int) or outer.scale < 1:
        return False
    length = int(kernel.axis[inner.axis].extent)  # type: ignore[arg-type]
    return divides(gcd(outer.scale, length, index.offset, size if isinstance(size, int) else 0), size)


def _at(index: Index, taps: Term, number: int) -> Index:
    if taps not in index.terms:
        return index
    return replace(index, terms=tuple(t for t in index.terms if t != taps), offset=index.offset + taps.scale * number)
