"""Rows of positions and rows of heads as one axis of rows: ``[positions, heads, width]`` as ``[positions * heads, width]``.

A block of a head for many positions is no block of such an array, whose native tiles hold eight heads of one position.  The
host would turn it to ``[heads, positions, width]`` or lay it out as ``[positions, heads * width]``, which copies all of it,
before and after the kernel.  Rows of all heads lie below each other as they are.  What differs between positions alone (angles)
is read once for each of them, and repeated in the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from portakern.dtypes import DTYPES
from portakern.ir.core import Arg, Block, Op, Type
from portakern.ir.program import Program
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

from .blocks import SUBLANES
from .whole_lines import Turned

_ELEMENTWISE = (Unary, Binary, Compare, Select, Cast, Bitcast, Broadcast, Turned)

_SMALL = 1 << 17
"""Elements of an array that may be one block, whatever the schedule has."""


class Repeated(Op):
    """Each row of ``x`` as many times, one below the other, as are rows of the first of ``dims``."""

    x: Op
    dims: tuple[Dim, ...]

    def infer(self) -> Type:
        have = tile_type(self.x)
        self.check(have.dims[1:] == self.dims[1:], "columns differ")
        return TileType(self.dims, have.dtype)

    @property
    def times(self) -> int:
        return self.dims[0][1] // tile_type(self.x).dims[0][1]


@dataclass(frozen=True)
class _Joined:
    """The axes ``outer`` and ``inner`` as ``rows``; ``few`` is the outer one with the tile that goes with that of ``rows``."""

    outer: Axis
    inner: Axis
    rows: Axis
    few: Axis


def with_joined_rows(program: Program) -> Program:
    """``program`` with joined rows in the kernels that are elementwise and read and write inputs and outputs of it alone, where
    the inner rows are whole native tiles."""
    given = {a.name for a in program.arrays if a.role in ("input", "output")}
    return replace(program, kernels=tuple(_of_rows(k, given) for k in program.kernels))


def following(kernel: Kernel) -> Mapping[str, str]:
    """Axes whose blocks go with those of another one, in one dim of the grid."""
    return {tile_type(op.x).dims[0][0]: op.dims[0][0] for op in kernel.body.walk() if isinstance(op, Repeated)}


def _of_rows(kernel: Kernel, given: set[str]) -> Kernel:
    joined = _joined(kernel)
    if joined is None or not all(_follows(op, joined, given) for op in kernel.body.ops):
        return kernel
    env: dict[Op, Op] = {}
    for arg in kernel.args:
        used = [op for op in kernel.body.ops if isinstance(op, Load | Store) and op.buffer is arg]
        env[arg] = _view(arg) if any(_has_rows(op, joined) for op in used) else arg
    ops: list[Op] = []
    for op in kernel.body.ops:
        if isinstance(op, Load | Store):
            new = _moved(op, joined, env)
        elif isinstance(op, Broadcast):
            new = replace(op, x=env.get(op.x, op.x), dims=_renamed(op.dims, joined))
        else:
            new = op.remap(lambda o: env.get(o, o))
        env[op] = new
        ops.append(new)
    axes: list[Axis] = []
    for a in kernel.axes:
        axes += [joined.rows, joined.few] if a is joined.outer else [] if a is joined.inner else [a]
    made = canonicalise(replace(kernel, axes=tuple(axes), body=Block(tuple(env[a] for a in kernel.body.args), tuple(ops))))
    return made if following(made) else replace(made, axes=tuple(a for a in made.axes if a is not joined.few))


def _joined(kernel: Kernel) -> _Joined | None:
    """The axes that a store has as rows before its columns, where the outer ones are tiled and the inner ones walked."""
    store = next((op for op in kernel.body.ops if isinstance(op, Store)), None)
    if store is None or len(store.indices) < 3 or len(dims := tile_type(store.value).dims) != 2:
        return None
    outer, inner = (kernel.axis.get(i.plain or "") for i in store.indices[-3:-1])
    if outer is None or inner is None or outer.name != dims[0][0] or inner.tile != 1:
        return None
    count = inner.extent
    if not isinstance(outer.extent, int) or not isinstance(count, int) or count < 2 or count % SUBLANES or not outer.extent:
        return None
    narrow = [op for op in kernel.body.ops if isinstance(op, Load) and not _has_inner(op, inner)]
    unit = max((_native(op) for op in narrow), default=SUBLANES)
    few = min(outer.tile // count // unit * unit, outer.extent)
    if not few and outer.extent * count * dims[1][1] <= _SMALL:
        few = outer.extent
    if not few or any(count % _native(op) for op in narrow) or (outer.kind == "whole" and few < outer.extent):
        return None
    name = f"{outer.name}{inner.name}"
    while name in kernel.axis:
        name += "_"
    rows = Axis(name, "grid", outer.extent * count, few * count)
    return _Joined(outer, inner, rows, replace(outer, tile=few))


def _has_inner(op: Load, inner: Axis) -> bool:
    return any(inner.name in i.axes for i in op.indices)


def _native(op: Load) -> int:
    """Rows of a native tile of the array of ``op``."""
    return SUBLANES * max(1, 4 // DTYPES[tile_type(op).dtype].bytes)


def _has_rows(op: Load | Store, joined: _Joined) -> bool:
    """Whether ``op`` means all rows of its array, in order."""
    shape, axes = buffer_type(op.buffer).shape[-3:-1], (joined.outer, joined.inner)
    return len(op.indices) >= 3 and all(
        i.plain == a.name and n == a.extent for i, a, n in zip(op.indices[-3:-1], axes, shape, strict=True))  # fmt: skip


def _follows(op: Op, joined: _Joined, given: set[str]) -> bool:
    """Whether ``op`` treats all rows alike, or differs between outer ones as a load can."""
    names = {joined.outer.name, joined.inner.name}
    if isinstance(op, Const | Extent):
        return True
    if isinstance(op, Coord | Start):
        return op.axis not in names
    if not isinstance(op, Load | Store):
        return isinstance(op, _ELEMENTWISE)
    if (op.mode != "set") if isinstance(op, Store) else (op.gathers or op.pad is not None):
        return False
    dims = tile_type(op.value if isinstance(op, Store) else op).dims
    if _has_rows(op, joined):
        others = {a for n, i in enumerate(op.indices) for a in i.axes if n not in (len(op.indices) - 3, len(op.indices) - 2)}
        assert isinstance(op.buffer, Arg)
        return len(dims) == 2 and dims[0][0] == joined.outer.name and not others & names and op.buffer.name in given
    used = {a for i in op.indices for a in i.axes} & names
    if not used:
        return not names & {a for a, _ in dims}
    whole = any(i.plain == joined.outer.name and n == joined.outer.extent
                for i, n in zip(op.indices, buffer_type(op.buffer).shape, strict=True))  # fmt: skip
    alone = sum(joined.outer.name in i.axes for i in op.indices) == 1
    return isinstance(op, Load) and used == {joined.outer.name} and whole and alone and len(dims) == 2 and (
        dims[0][0] == joined.outer.name)  # fmt: skip


def _renamed(dims: tuple[Dim, ...], joined: _Joined) -> tuple[Dim, ...]:
    return tuple((joined.rows.name, joined.rows.tile) if a == joined.outer.name else (a, n) for a, n in dims)


def _view(arg: Op) -> Arg:
    assert isinstance(arg, Arg)
    have = buffer_type(arg)
    *around, outer, inner, width = have.shape
    return Arg(arg.name, replace(have, shape=(*around, outer * inner, width)), loc=arg.loc)


def _moved(op: Load | Store, joined: _Joined, env: Mapping[Op, Op]) -> Op:
    given = {"value": env.get(op.value, op.value)} if isinstance(op, Store) else {"dims": _renamed(op.dims, joined)}
    if _has_rows(op, joined):
        indices = (*op.indices[:-3], Index.of(joined.rows.name), op.indices[-1])
        return replace(op, buffer=env[op.buffer], indices=indices, **given)
    if isinstance(op, Load) and any(joined.outer.name in i.axes for i in op.indices):
        few = tuple((a, joined.few.tile if a == joined.outer.name else n) for a, n in op.dims)
        return Repeated(replace(op, dims=few), _renamed(op.dims, joined), loc=op.loc)
    return op.remap(lambda o: env.get(o, o))


__all__ = ["Repeated", "following", "with_joined_rows"]
