"""What the C family has no rule for, all of it found before any text is made."""

from __future__ import annotations

from collections.abc import Container, Iterator

from portakern.backend import Missing, Target
from portakern.dtypes import DTYPES
from portakern.emit.clike.dialect import Dialect
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.emit.clike.memory import pixels, reach
from portakern.emit.where import where
from portakern.ir import tile as t
from portakern.ir.core import Op, Result, Yield
from portakern.ir.program import Program

KNOWN = (
    t.Coord, t.Start, t.Extent, t.Const, t.Unary, t.Binary, t.Fma, t.Compare, t.Select, t.Cast, t.Bitcast, t.Broadcast,
    t.Permute, t.Mask, t.Reduce, t.Scan, t.ScanBy, t.SortBy, t.Dot, t.Load, t.Store, t.For, Result, Yield, t.Arg,
)  # fmt: skip


def missing_rules(program: Program, target: Target, dialect: Dialect) -> list[Missing]:
    """Everything in ``program`` that cannot be said for ``target``, each once, with the operator's line."""
    found: dict[Missing, None] = {}
    for array in program.arrays:
        for what in _dtype(array.dtype, target, dialect, where(program, array)):
            found[what] = None
    for kernel in program.kernels:
        for op in tiles_of(kernel.body):
            for what, alternative in _operation(op, kernel, dialect):
                found[Missing(what, where(program, op, kernel), alternative)] = None
            if isinstance(op.type, t.TileType):
                for one in _dtype(op.type.dtype, target, dialect, where(program, op, kernel)):
                    found.setdefault(one)
    return list(found)


def _dtype(dtype: str, target: Target, dialect: Dialect, line: str) -> Iterator[Missing]:
    device = target.device
    if dtype not in dialect.types:
        yield Missing(f"{dialect.name} has no type for {dtype}", line, device.alternatives.get(dtype, ""))
    elif dtype not in device.dtypes and dtype not in ("bool", "i32", "i64"):
        yield Missing(f"{device.name} has no {dtype}", line, device.alternatives.get(dtype, ""))


def _operation(op: Op, kernel: t.Kernel, dialect: Dialect) -> Iterator[tuple[str, str]]:
    if not isinstance(op, KNOWN):
        yield f"the operation {op.mnemonic()}", ""
        return
    if len(dims_of(op)) > 2:
        yield f"a tile with {len(dims_of(op))} dims ({op.type})", "tile at most two axes"
    match op:
        case t.Unary(fn=fn) if fn not in dialect.unary:
            yield f"the function {fn}", ""
        case t.Binary(fn=fn) if fn not in dialect.binary:
            yield f"the function {fn}", ""
        case t.Cast(dtype=dtype) if dtype not in DTYPES:
            yield f"a cast to {dtype}", ""
        case t.Scan(x=x, axis=axis) if dims_of(x)[-1][0] != axis:
            yield f"a running {op.fn} down the columns of a tile", f"tile {axis} by 1"
        case t.ScanBy(axis=axis) if not dialect.member:
            yield "a scan of a tile by a function of the operator's", f"tile {axis} by 1"
        case t.ScanBy(xs=xs, axis=axis) if dims_of(xs[0])[-1][0] != axis:
            yield "a scan down the columns of a tile", f"tile {axis} by 1"
        case t.SortBy(axis=axis) if not dialect.sorts:
            yield "a sort of a tile", ""
        case t.SortBy(xs=xs, axis=axis) if len(dims_of(xs[0])) > 1:
            yield "a sort of lines side by side", "tile the other axis by 1"
        case t.Dot():
            yield from _dot(op)
        case t.Load() | t.Store():
            yield from _access(op, kernel, dialect)


def _dot(op: t.Dot) -> Iterator[tuple[str, str]]:
    dims = [len(dims_of(x)) for x in (op.lhs, op.rhs, op)]
    if dims != [2, 2, 2]:
        yield f"a matrix product of tiles with {dims} dims", "tile the two free axes and the contracted one"


def _access(op: t.Load | t.Store, kernel: t.Kernel, dialect: Dialect) -> Iterator[tuple[str, str]]:
    dims = dict(dims_of(op) if isinstance(op, t.Load) else dims_of(op.value))
    checked = pixels(kernel, op)
    by_themselves = checked if dialect.takes_pixels or (dialect.takes_parts and isinstance(op, t.Load)) else ()
    for dim in t.joined_dims(op):
        index, size = dim.index, dim.size
        if dim in by_themselves and _told_apart(index, dims, dialect):
            continue
        if index.gather >= 0:
            if index != t.Index((), 0, index.gather):
                yield f"the index {index}, to which a tile is added", "add the coordinate to the tile"
            continue
        for term in index.terms:
            if term.axis in dims and (term.div != 1 or term.mod):
                yield f"the index {index} of a tile along {term.axis}", f"tile {term.axis} by 1"
        low, high = reach(index, kernel)
        if isinstance(low, int) and low < 0:
            yield f"the index {index}, which may be below 0", "pad the array first"
        beyond = high - size
        unknown = dim in checked and not isinstance(beyond, int)
        if (unknown or (isinstance(beyond, int) and beyond >= 0)) and not _empty(index, kernel):
            yield f"the index {index}, which may be beyond {size}", "pad the array first"


def _told_apart(index: t.Index, dims: Container[str], dialect: Dialect) -> bool:
    """Whether rows alone, or columns, say where ``index`` is in a tile of ``dims``; or each has a part in it."""
    axes = [x.axis for x in index.terms if x.axis in dims]
    return len(axes) <= 1 or (dialect.takes_planes and len(axes) == 2 == len(set(axes)))


def _empty(index: t.Index, kernel: t.Kernel) -> bool:
    return any(kernel.axis[a].extent == 0 for a in index.axes)
