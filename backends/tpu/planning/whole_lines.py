"""Parts of a line computed on the whole line: halves of 64 elements leave half of every vector idle, and those that do not
begin at lane 0 are moved there and back.

``out[:h] = f(x[:h], x[h:])`` and ``out[h:] = g(x[:h], x[h:])`` (a rotary embedding, say) become one value of whole lines: ``f``
in the lanes of the first part, ``g`` in the others, of ``x`` and of ``x`` turned by ``h`` lanes.  What has no more elements
than a part (angles) is put beside itself by the host, where many lines share it.  Where all parts make up one line of lanes,
that takes no more vectors than a part alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.ir.core import Arg, Block, Op, Type
from portakern.ir.program import Array, Program
from portakern.ir.rewrite import canonicalise
from portakern.ir.tile import (
    Axis,
    Binary,
    Bitcast,
    Broadcast,
    Cast,
    Compare,
    Const,
    Coord,
    Dim,
    Extent,
    Index,
    Kernel,
    Load,
    Select,
    Start,
    Store,
    TileType,
    Unary,
    buffer_type,
    tile_type,
)

from .blocks import LANES
from .pieces import Assembly, Piece, Place

_ELEMENTWISE = (Unary, Binary, Compare, Select, Cast, Bitcast, Broadcast)

_TURNED = {"f32": "", "i32": "", "u32": "", "bf16": "f32"}
"""Dtypes of lines that can be turned, with the one that they are turned in: Mosaic turns lanes of 32 bits."""


class Turned(Op):
    """``x``, whose last axis lies along the lanes, with every element ``by`` lanes further on, the last ones first."""

    x: Op
    by: int

    def infer(self) -> Type:
        return tile_type(self.x)


@dataclass(frozen=True)
class _Lines:
    """Parts along the axis ``part``, ``count`` of which are a line, an axis of its own."""

    part: Axis
    line: Axis
    count: int

    @property
    def size(self) -> int:
        return self.line.tile // self.count


def with_whole_lines(program: Program) -> tuple[Program, tuple[Assembly, ...]]:
    """``program`` with one store of whole lines in the place of those of their parts, where kernels are elementwise, and the
    arrays that are put beside themselves for that."""
    if program.repeats:  # what is put together in front of a loop may be made anew in its turns
        return program, ()
    found: dict[str, Assembly] = {}
    kernels = []
    for kernel in program.kernels:
        stores = [op for op in kernel.body.ops if isinstance(op, Store)]
        lines = _lines_of(kernel, stores)
        if lines is None or not all(_follows(op, kernel, stores[0], lines) for op in kernel.body.ops):
            kernels.append(kernel)
            continue
        beside = {op.buffer: _beside(op, lines, {*found, *(a.name for a in program.arrays)})
                  for op in kernel.body.ops if isinstance(op, Load) and _narrow(op, lines)}  # fmt: skip
        found |= {a.array.name: a for a in beside.values()}
        kernels.append(_of_whole_lines(kernel, stores, lines, beside))
    arrays = (*program.arrays, *(a.array for a in found.values()))
    return replace(program, arrays=arrays, kernels=tuple(kernels)), tuple(found.values())


def _beside(op: Load, lines: _Lines, taken: set[str]) -> Assembly:
    """The array of ``op`` with every line repeated."""
    assert isinstance(op.buffer, Arg)
    of = buffer_type(op.buffer)
    name = f"{op.buffer.name}_lines"
    while name in taken:
        name += "_"
    around: tuple[Place, ...] = tuple((0, 1, n) for n in of.shape[:-1])
    pieces = tuple(Piece(op.buffer.name, (*around, (n * lines.size, 1, lines.size))) for n in range(lines.count))
    return Assembly(Array(name, replace(of, shape=(*of.shape[:-1], LANES)), "temporary"), pieces)


def _of_whole_lines(kernel: Kernel, stores: Sequence[Store], lines: _Lines, beside: Mapping[Op, Assembly]) -> Kernel:
    ordered = sorted(stores, key=lambda op: _part(op, lines) or 0)
    wide: dict[Op, Op] = {old: Arg(a.array.name, a.array.type) for old, a in beside.items()}
    values = [_computed(kernel, op.value, _part(op, lines) or 0, lines, wide) for op in ordered]
    whole = replace(ordered[0], value=_chosen(values, lines), indices=_of_lines(ordered[0], lines))
    axes = tuple(lines.line if a is lines.part else a for a in kernel.axes)
    args = (*kernel.body.args, *wide.values())
    made = canonicalise(replace(kernel, axes=axes, body=Block(args, (*(x for x in kernel.body.ops if x not in stores), whole))))
    used = {o for op in made.body.ops for o in op.operands}
    return replace(made, body=Block(tuple(a for a in args if a in used), made.body.ops))


def _lines_of(kernel: Kernel, stores: Sequence[Store]) -> _Lines | None:
    """The lines that ``stores`` make up, which differ in nothing but the part that they store."""
    if len(stores) < 2 or not stores[0].indices or len(tile_type(stores[0].value).dims) != 2:
        return None
    first, size = stores[0], buffer_type(stores[0].buffer).shape[-1]
    axis = kernel.axis[tile_type(first.value).axes[1]]
    if size != LANES or not isinstance(axis.extent, int) or axis.tile < axis.extent or axis.extent * len(stores) != size:
        return None
    name = f"{axis.name}_line"
    while name in kernel.axis:
        name += "_"
    lines = _Lines(axis, Axis(name, "grid", LANES, LANES), len(stores))
    alike = all(op.buffer is first.buffer and op.mode == "set" and op.indices[:-1] == first.indices[:-1]
                and tile_type(op.value).dims == tile_type(first.value).dims for op in stores)  # fmt: skip
    return lines if alike and sorted(_part(op, lines) or 0 for op in stores) == list(range(len(stores))) else None


def _part(op: Load | Store, lines: _Lines) -> int | None:
    """Which part of a line ``op`` means; ``None`` where it means none."""
    shape, index = buffer_type(op.buffer).shape, op.indices[-1]
    plain = replace(index, offset=0).plain == lines.part.name and shape[-1] == lines.line.extent
    return index.offset // lines.size if plain and isinstance(index.offset, int) and index.offset % lines.size == 0 else None


def _follows(op: Op, kernel: Kernel, store: Store, lines: _Lines) -> bool:
    """Whether ``op`` has a value for every element of a line, or none that differs between them."""
    part = lines.part.name
    if isinstance(op, Const | Extent):
        return True
    if isinstance(op, Coord | Start):
        return op.axis != part
    if isinstance(op, Store):
        return _part(op, lines) is not None and part not in _axes(op.indices[:-1])
    if not isinstance(op, Load):
        dims = op.type.axes if isinstance(op.type, TileType) else ()
        return isinstance(op, _ELEMENTWISE) and (part not in dims or dims[-1:] == (part,))
    if part not in _axes(op.indices):
        return True
    at_end = tile_type(op).axes[-1:] == (part,) and part not in _axes(op.indices[:-1])
    if not at_end or op.gathers or op.pad is not None:
        return False
    if _part(op, lines) is not None:
        return tile_type(op).dtype in _TURNED
    return _narrow(op, lines) and _shared(op, kernel, store)


def _axes(indices: Sequence[Index]) -> set[str]:
    return {a for i in indices for a in i.axes}


def _narrow(op: Load, lines: _Lines) -> bool:
    """Whether ``op`` means lines that are no longer than a part."""
    shape = buffer_type(op.buffer).shape
    return bool(shape) and op.indices[-1].plain == lines.part.name and shape[-1] == lines.part.extent


def _shared(op: Load, kernel: Kernel, store: Store) -> bool:
    """Whether several lines of ``store`` take the same of ``op``, so that little is put beside itself for what it saves."""
    return any(kernel.axis[a].extent != 1 for a in _axes(store.indices) - _axes(op.indices))


def _of_lines(op: Load | Store, lines: _Lines) -> tuple[Index, ...]:
    return (*op.indices[:-1], Index.of(lines.line.name))


def _computed(kernel: Kernel, value: Op, number: int, lines: _Lines, wide: Mapping[Op, Op]) -> Op:
    """``value``, which part ``number`` stores, of whole lines in which its operands lie there; ``wide`` are the arrays that
    have whole lines in the place of parts."""
    env: dict[Op, Op] = {}
    for op in kernel.body.ops:
        along = isinstance(op.type, TileType) and lines.part.name in op.type.axes
        if isinstance(op, Load) and along:
            env[op] = _loaded(op, number, lines, wide)
        elif isinstance(op, Cast) and isinstance(op.x, Load) and along and (_part(op.x, lines) is not None):
            # Lines are turned as they are computed with: not at the width of the array, which would be made 32 bits first.
            env[op] = _turned(Cast(_whole(op.x, lines), op.dtype, loc=op.loc), _shift(op.x, number, lines))
        elif isinstance(op, Broadcast) and along:
            env[op] = Broadcast(env.get(op.x, op.x), _wide(op.dims, lines), loc=op.loc)
        elif not isinstance(op, Store):
            env[op] = op.remap(lambda o: env.get(o, o))
    return env[value]


def _wide(dims: Sequence[Dim], lines: _Lines) -> tuple[Dim, ...]:
    return tuple((lines.line.name, lines.line.tile) if a == lines.part.name else (a, n) for a, n in dims)


def _whole(op: Load, lines: _Lines) -> Load:
    return replace(op, indices=_of_lines(op, lines), dims=_wide(op.dims, lines))


def _shift(op: Load, number: int, lines: _Lines) -> int:
    return (number - (_part(op, lines) or 0)) % lines.count * lines.size


def _loaded(op: Load, number: int, lines: _Lines, wide: Mapping[Op, Op]) -> Op:
    if _part(op, lines) is None:
        # In one step: with old indices the longer lines would not hold together.
        return replace(op, buffer=wide[op.buffer], indices=_of_lines(op, lines), dims=_wide(op.dims, lines))
    return _turned(_whole(op, lines), _shift(op, number, lines))


def _turned(x: Op, by: int) -> Op:
    dtype = tile_type(x).dtype
    if not by:
        return x
    return Cast(Turned(Cast(x, wider), by), dtype) if (wider := _TURNED[dtype]) else Turned(x, by, loc=x.loc)


def _chosen(values: Sequence[Op], lines: _Lines) -> Op:
    """In every part of a line the value of that part."""
    if all(isinstance(v, Cast) for v in values) and len({tile_type(o) for v in values for o in v.operands}) == 1:
        return Cast(_chosen([v.operands[0] for v in values], lines), tile_type(values[0]).dtype)  # masks have 32 bits
    dims = tile_type(values[0]).dims
    column = Coord(lines.line.name, dims[1:])
    *before, chosen = values
    for number, value in reversed(tuple(enumerate(before))):
        inside = Compare("lt", column, Const((number + 1) * lines.size, "i32"))
        chosen = Select(Broadcast(inside, dims), value, chosen)
    return chosen


__all__ = ["Turned", "with_whole_lines"]
