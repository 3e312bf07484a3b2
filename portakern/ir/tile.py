"""The tile level: what one kernel does, as a grid of named axes over buffers and a body on immutable tiles.

Nothing here knows of threads, warps, shared memory or barriers; those belong to the emitters.

*Axes.*  A kernel declares its axes.  A ``grid`` axis is cut into blocks of ``tile`` elements that run in no order; a
``loop`` axis is walked by a :class:`For`; a ``whole`` axis is covered by a single tile (``tile >= extent``).  Tile
dims are named by axes: ``tile[m:64, n:128, f32]``.  **An axis whose tile is 1 gives no dim**: its coordinate is a
scalar of the block.  So shapes say by themselves what broadcasts and what is ragged.

*Raggedness.*  An axis is ragged when its tile does not divide its extent.  ``Load`` gives ``pad`` outside the extent
of the buffer (``None``: undefined); a pad holds at the load only.  After any other operation what lies outside is
undefined, ``Store`` never writes it, and :class:`Mask` sets it again where a reduction needs an identity.

*Effects.*  Grid points are unordered and their stores disjoint, save ``Store(mode="add" | "max")``.  Inputs, outputs
and temporaries never alias, so loads are pure.

*Numbers.*  Arithmetic on tiles is in f32, f64, i32, i64 or bool; f16, bf16 and the 8-bit floats only pass through
``Load``, ``Cast``, ``Dot``, ``Broadcast``, ``Permute``, ``Reshape``, ``Select`` and ``Store``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from portakern.dtypes import DTYPES
from portakern.errors import IRError
from portakern.ir.core import NONE, Arg, Block, Function, ManyType, Op, Type, codec, verify, yielded
from portakern.ir.functions import BINARY, COMPARE, UNARY
from portakern.ir.index import Index, Term
from portakern.ir.schedule import Schedule
from portakern.ir.size import Size, names_of, parse_size
from portakern.ir.tile_types import Axis, BufferType, Dim, Dims, TileType, buffer_type, known_dtype, tile_type

# ---- operations on tiles -----------------------------------------------------------------------------------------------

REDUCE = {"sum", "max", "min", "prod", "any", "all"}
"""``max`` and ``min`` hand on NaN."""


def identity(fn: str, dtype: str) -> float | int | bool:
    """The value that ``fn`` leaves everything unchanged with."""
    kind = DTYPES[dtype]
    if fn in ("any", "all"):
        return fn == "all"
    if fn in ("sum", "prod"):
        unit = 0 if fn == "sum" else 1
        return float(unit) if kind.is_float else unit
    if kind.is_float:
        return -math.inf if fn == "max" else math.inf
    lowest = -(2 ** (kind.bits - 1)) if kind.kind == "int" else 0
    highest = 2 ** (kind.bits - (kind.kind == "int")) - 1
    return lowest if fn == "max" else highest


PRECISION = {"ieee", "tf32", "bf16x3", "bf16x6", "fp8_fast"}


def _same(op: Op, *values: Op) -> TileType:
    """The common type of elementwise operands; scalars go with anything."""
    types = [tile_type(v) for v in values]
    shaped = [t for t in types if t.dims] or types
    for t in shaped:
        op.check(t.dims == shaped[0].dims, f"dims differ: {shaped[0]} and {t}", "broadcast one to the dims of the other")
    return shaped[0]


class Coord(Op):
    """The coordinates of an axis as an integer tile over it (a scalar where the axis's tile is 1)."""

    axis: str
    dims: tuple[Dim, ...]  # () or the one dim of the axis
    dtype: str = "i32"

    def infer(self) -> Type:
        self.check(self.dims == () or (len(self.dims) == 1 and self.dims[0][0] == self.axis), "dims are not the axis's")
        return TileType(self.dims, self.dtype)


class Start(Op):
    """The first coordinate of the current tile of an axis, a scalar."""

    axis: str
    dtype: str = "i32"

    def infer(self) -> Type:
        return TileType((), self.dtype)


class Extent(Op):
    """A size as a scalar: a number, or the value of an expression of open dims."""

    size: Size
    dtype: str = "i32"

    def infer(self) -> Type:
        return TileType((), self.dtype)


codec("Size", str, parse_size)


class Const(Op):
    """A scalar constant."""

    value: float | int | bool
    dtype: str

    def infer(self) -> Type:
        return TileType((), self.dtype)


class Unary(Op):
    fn: str
    x: Op

    def infer(self) -> Type:
        self.check(self.fn in UNARY, f"{self.fn!r} is not one of {', '.join(sorted(UNARY))}")
        t = tile_type(self.x)
        return t.with_dtype("bool") if self.fn == "isnan" else t


class Binary(Op):
    fn: str
    lhs: Op
    rhs: Op

    def infer(self) -> Type:
        self.check(self.fn in BINARY, f"{self.fn!r} is not one of {', '.join(sorted(BINARY))}")
        left, right = tile_type(self.lhs).dtype, tile_type(self.rhs).dtype
        self.check(left == right, f"dtypes differ: {left} and {right}", "cast one of them")
        return _same(self, self.lhs, self.rhs)


class Compare(Op):
    fn: str
    lhs: Op
    rhs: Op

    def infer(self) -> Type:
        self.check(self.fn in COMPARE, f"{self.fn!r} is not one of {', '.join(sorted(COMPARE))}")
        left, right = tile_type(self.lhs).dtype, tile_type(self.rhs).dtype
        self.check(left == right, f"dtypes differ: {left} and {right}", "cast one of them")
        return _same(self, self.lhs, self.rhs).with_dtype("bool")


class Select(Op):
    """``yes`` where ``condition`` holds, else ``no``."""

    condition: Op
    yes: Op
    no: Op

    def infer(self) -> Type:
        self.check(tile_type(self.condition).dtype == "bool", f"the condition is {self.condition.type}, not bool")
        self.check(tile_type(self.yes).dtype == tile_type(self.no).dtype, "the two branches differ in dtype")
        return _same(self, self.condition, self.yes, self.no).with_dtype(tile_type(self.yes).dtype)


class Fma(Op):
    """``x * y + z`` rounded once.  Lowering writes no such thing: emitters make it of what costs an instruction else."""

    x: Op
    y: Op
    z: Op

    def infer(self) -> Type:
        dtypes = {tile_type(o).dtype for o in (self.x, self.y, self.z)}
        self.check(len(dtypes) == 1, f"dtypes differ: {' and '.join(sorted(dtypes))}", "cast one of them")
        return _same(self, self.x, self.y, self.z)


class Cast(Op):
    """To another dtype, rounding to nearest even; floats to integers truncate.  Never dropped where it narrows."""

    x: Op
    dtype: str

    def infer(self) -> Type:
        known_dtype(self.dtype)
        return tile_type(self.x).with_dtype(self.dtype)


class Bitcast(Op):
    """The same bits read as another dtype of the same width."""

    x: Op
    dtype: str

    def infer(self) -> Type:
        self.check(known_dtype(self.dtype).bits == known_dtype(tile_type(self.x).dtype).bits, "widths differ")
        return tile_type(self.x).with_dtype(self.dtype)


class Broadcast(Op):
    """``x`` repeated along the dims it lacks; the dims it has stay in their order."""

    x: Op
    dims: tuple[Dim, ...]

    def infer(self) -> Type:
        have = tile_type(self.x)
        kept = tuple(d for d in self.dims if d[0] in have.axes)
        self.check(kept == have.dims, f"{have} does not broadcast to {self.dims}")
        return TileType(self.dims, have.dtype)


class Permute(Op):
    """The dims of ``x`` in another order."""

    x: Op
    axes: tuple[str, ...]

    def infer(self) -> Type:
        have = tile_type(self.x)
        self.check(sorted(self.axes) == sorted(have.axes), f"{self.axes} is not an order of the dims of {have}")
        return TileType(tuple((a, have.size(a)) for a in self.axes), have.dtype)


class Mask(Op):
    """``x`` with ``value`` wherever the coordinate of ``axis`` is not below its extent."""

    x: Op
    axis: str
    value: float | int | bool

    def infer(self) -> Type:
        have = tile_type(self.x)
        self.check(self.axis in have.axes, f"{have} has no dim {self.axis}")
        return have


class Reduce(Op):
    """``x`` reduced along ``axis``, whose dim goes away.  What lies outside the extent must hold the identity."""

    fn: str
    x: Op
    axis: str

    def infer(self) -> Type:
        self.check(self.fn in REDUCE, f"{self.fn!r} is not one of {', '.join(sorted(REDUCE))}")
        have = tile_type(self.x)
        self.check(self.axis in have.axes, f"{have} has no dim {self.axis}")
        return have.without(self.axis)


class ArgReduce(Op):
    """Extreme value along ``axis`` and its coordinate (the lowest among equals): results (value, i32 index)."""

    fn: str
    x: Op
    axis: str

    def infer(self) -> Type:
        self.check(self.fn in ("max", "min"), f"{self.fn!r} is not max or min")
        have = tile_type(self.x)
        self.check(self.axis in have.axes, f"{have} has no dim {self.axis}")
        rest = have.without(self.axis)
        return ManyType((rest, rest.with_dtype("i32")))


class Scan(Op):
    """Running ``fn`` along ``axis`` starting from ``carry``: results (tile, the carry for the next tile)."""

    fn: str
    x: Op
    axis: str
    carry: Op
    reverse: bool = False
    exclusive: bool = False

    def infer(self) -> Type:
        self.check(self.fn in REDUCE, f"{self.fn!r} is not one of {', '.join(sorted(REDUCE))}")
        have = tile_type(self.x)
        self.check(self.axis in have.axes, f"{have} has no dim {self.axis}")
        self.check(self.carry.type == have.without(self.axis), f"the carry is {self.carry.type}")
        return ManyType((have, have.without(self.axis)))


class ScanBy(Op):
    """Running values of ``xs``, tiles over the same dims, along ``axis`` by an associative function: results (a tile for each,
    then the last running value of each).

    ``join`` takes scalars, those of the left part and then those of the right part, and gives those of both together; it uses
    nothing from outside.  What lies beyond the extent is joined last, so it may be anything.
    """

    closed = True

    xs: tuple[Op, ...]
    axis: str
    join: Block

    def infer(self) -> Type:
        types = [tile_type(x) for x in self.xs]
        self.check(bool(types) and all(have.dims == types[0].dims for have in types), "the tiles differ in dims")
        self.check(self.axis in types[0].axes, f"{types[0]} has no dim {self.axis}")
        scalars = tuple(TileType((), have.dtype) for have in types)
        self.check(tuple(a.type for a in self.join.args) == scalars * 2, "join does not take two sets of elements")
        self.check(tuple(v.type for v in yielded(self.join)) == scalars, "join does not give one set of elements")
        return ManyType((*types, *(have.without(self.axis) for have in types)))


class SortBy(Op):
    """Lines of ``xs``, tiles over the same dims, along ``axis`` in ascending order of the integers (i32 or i64) in the first;
    equal ones keep their order: results (a tile for each).

    Keys outside the extent must be the largest integer.  With ``count`` only so many elements of a line are asked for: what
    stands behind them may be anything, and with ``into``, the dim of another axis, they run along that one.
    """

    xs: tuple[Op, ...]
    axis: str
    count: int = 0
    into: tuple[Dim, ...] = ()

    def infer(self) -> Type:
        types = [tile_type(x) for x in self.xs]
        self.check(bool(types) and all(have.dims == types[0].dims for have in types), "the tiles differ in dims")
        self.check(self.axis in types[0].axes, f"{types[0]} has no dim {self.axis}")
        self.check(types[0].dtype in ("i32", "i64"), f"the keys are {types[0].dtype}, not i32 or i64")
        fits = not self.into or (len(self.into) == 1 and 0 < self.count <= self.into[0][1])
        self.check(fits, f"{self.into} is no dim of {self.count} elements")
        return ManyType(tuple(TileType(self.dims, have.dtype) for have in types))

    def moves_places(self, kernel: Kernel, number: int) -> bool:
        """Whether ``xs[number]`` are the coordinates of a line that one tile covers: moved, they are the order itself."""
        return isinstance(self.xs[number], Coord) and kernel.axis[self.axis].kind == "whole"

    @property
    def dims(self) -> Dims:
        """The dims of the results."""
        return tuple((*self.into, d)[0] if d[0] == self.axis else d for d in tile_type(self.xs[0]).dims)


def starts_anew(scan: Scan) -> bool:
    """Whether nothing came before what ``scan`` runs over: its carry is the identity."""
    carry = scan.carry
    while isinstance(carry, Broadcast):
        carry = carry.x
    return isinstance(carry, Const) and carry.value == identity(scan.fn, carry.dtype)


class Dot(Op):
    """``acc`` plus the products of ``lhs`` and ``rhs`` summed over ``axis``; every other shared dim is a batch dim.

    The result has the dims of ``acc``.  What lies outside the extent of ``axis`` must be zero in both operands.
    ``precision`` is how products are formed: ``ieee`` at least as exact as the operands' dtype with sums in ``acc``'s.
    """

    lhs: Op
    rhs: Op
    acc: Op
    axis: str
    precision: str = "ieee"

    def infer(self) -> Type:
        a, b, c = tile_type(self.lhs), tile_type(self.rhs), tile_type(self.acc)
        self.check(self.precision in PRECISION, f"{self.precision!r} is not one of {', '.join(sorted(PRECISION))}")
        self.check(a.dtype == b.dtype, f"operand dtypes differ: {a.dtype} and {b.dtype}")
        self.check(self.axis in a.axes and self.axis in b.axes and self.axis not in c.axes,
                   f"{self.axis} must be a dim of both operands and not of the accumulator")
        free = {d for d in (*a.dims, *b.dims) if d[0] != self.axis}
        self.check(free == set(c.dims), f"{a} times {b} over {self.axis} does not give {c}")
        self.check(c.dtype in ("f32", "f64", "i32"), f"the accumulator is {c.dtype}, not f32, f64 or i32")
        return c


class Load(Op):
    """The tile of ``buffer`` at ``indices``, with dims in the order ``dims``; ``pad`` outside the buffer's extents.

    ``gathers`` are integer tiles over some of ``dims``, in their order: coordinates that indices name.  One outside the
    buffer, whatever its value, is compared in its own dtype and touches no memory.
    """

    buffer: Op
    indices: tuple[Index, ...]
    dims: tuple[Dim, ...]
    pad: float | int | None = None
    gathers: tuple[Op, ...] = ()

    def infer(self) -> Type:
        have = buffer_type(self.buffer)
        _check_access(self, have, self.indices, self.dims, self.gathers)
        return TileType(self.dims, have.dtype)


class Store(Op):
    """Write ``value`` to ``buffer`` at ``indices``, only inside the extents; ``mode`` is set, add or max."""

    value: Op
    buffer: Op
    indices: tuple[Index, ...]
    mode: str = "set"
    pure = False

    def infer(self) -> Type:
        have, value = buffer_type(self.buffer), tile_type(self.value)
        self.check(value.dtype == have.dtype, f"cannot store {value} to {have}", "cast it first")
        self.check(self.mode in ("set", "add", "max"), f"{self.mode!r} is not set, add or max")
        _check_access(self, have, self.indices, value.dims, ())
        return NONE


def _check_access(op: Op, have: BufferType, indices: tuple[Index, ...], dims: Dims, gathers: tuple[Op, ...]) -> None:
    op.check(len(indices) == len(have.shape), f"{len(indices)} indices for {have}")
    used = {a for i in indices for a in i.axes} | {a for g in gathers for a in tile_type(g).axes}
    for axis, _ in dims:
        op.check(axis in used, f"the dim {axis} appears in no index")
    for i in indices:
        op.check(i.gather < len(gathers), f"index {i} names a gather that is not there")
    named = [i.gather for i in indices if i.gather >= 0]
    op.check(sorted(named) == list(range(len(gathers))), f"{len(gathers)} gathers, of which indices name {named}")
    for g in map(tile_type, gathers):
        op.check(known_dtype(g.dtype).is_int, f"gathered coordinates are {g.dtype}, not integers")
        op.check(g.dims == tuple(d for d in dims if d in g.dims), f"{g} has not the dims of the tile in their order")


class For(Op):
    """Walk a loop axis from coordinate ``lo`` (a multiple of its tile, rounded down) to below ``hi``, carrying tiles.

    The body's arguments are the carried values and it yields their next values.  ``lo`` and ``hi`` are integer
    scalars, computed from the block's position or loaded from an array; ``None`` means 0 and the extent, beyond which nothing
    is walked.  ``combine`` says how the results of two parts of the range join: a block
    of arguments (left..., right...) yielding the joined values, with ``init`` as its identity (or, of a loop
    that carries the values of the loop around on, the ``init`` of that); an empty block where the loop may not be split.
    """

    axis: str
    lo: Op | None
    hi: Op | None
    init: tuple[Op, ...]
    body: Block
    combine: Block
    pure = False
    word = "loop"

    def infer(self) -> Type:
        carried = tuple(v.type for v in self.init)
        self.check(tuple(a.type for a in self.body.args) == carried, "the body's arguments are not typed as init")
        self.check(tuple(v.type for v in yielded(self.body)) == carried, "the body does not yield what it carries")
        if self.combine.ops:
            self.check(tuple(a.type for a in self.combine.args) == carried * 2, "combine must take two sets of values")
            self.check(tuple(v.type for v in yielded(self.combine)) == carried, "combine must yield one set of values")
        return ManyType(carried)


def begins_inside(lo: Op) -> bool:
    """Whether the bound ``lo`` is known not to be negative."""
    least = _least(lo)
    return least is not None and least >= 0


def _least(op: Op) -> int | None:
    """What an integer scalar is not below, where that is known."""
    match op:
        case Cast(x=x):
            return _least(x)
        case Start():
            return 0
        case Const(value=value) | Extent(size=value):
            return value if isinstance(value, int) else 0
        case Binary(fn="add" | "sub" | "min" | "max" as fn, lhs=lhs, rhs=rhs):
            a, b = _least(lhs), _least(rhs)
            if fn == "max":
                return max((x for x in (a, b) if x is not None), default=None)
            if fn == "sub":
                b = -rhs.size if isinstance(rhs, Extent) and isinstance(rhs.size, int) else None
            return None if a is None or b is None else min(a, b) if fn == "min" else a + b
    return None


def ends_inside(hi: Op, extent: Size) -> bool:
    """Whether the bound ``hi`` is known to be no more than ``extent``."""
    match hi:
        case Cast(x=x):
            return ends_inside(x, extent)
        case Const(value=value) | Extent(size=value):
            return value == extent or (isinstance(value, int) and isinstance(extent, int) and value < extent)
        case Binary(fn="max" | "min" as fn, lhs=lhs, rhs=rhs):
            return (any if fn == "min" else all)(ends_inside(x, extent) for x in (lhs, rhs))
        case Binary(fn="sub", lhs=lhs, rhs=Extent(size=int(size))) if size >= 0:
            return ends_inside(lhs, extent + size)
    return False


@dataclass(frozen=True)
class AccessedDim:
    """One dim of a buffer as an access sees it, its stride in elements."""

    index: Index
    size: Size
    stride: Size


def joined_dims(op: Load | Store) -> tuple[AccessedDim, ...]:
    """The dims of the buffer of ``op``, of which neighbours that are read by all parts of one coordinate are one: element
    ``[p // 8, p % 8]`` of ``[N, 8]`` is element ``[p]`` of ``[8 * N]``."""
    have = buffer_type(op.buffer)
    made: list[AccessedDim] = []
    for index, size, stride in zip(op.indices, have.shape, have.element_strides, strict=True):
        dim = AccessedDim(index, size, stride)
        before = made[-1] if made else None
        if before is not None and (whole := _whole(before, dim)) is not None:
            made[-1] = whole
        else:
            made.append(dim)
    return tuple(made)


def _whole(a: AccessedDim, b: AccessedDim) -> AccessedDim | None:
    """The dim that ``a`` and ``b`` behind it are, where their indices are the quotient and the remainder of one."""
    if len(a.index.terms) != 1 or len(b.index.terms) != 1 or a.index.gather >= 0 or b.index.gather >= 0:
        return None
    x, y = a.index.terms[0], b.index.terms[0]
    if not isinstance(b.size, int):
        return None
    parts = x.axis == y.axis and y.mod == b.size and x.div == y.div * b.size
    if not parts or (x.scale, y.scale, a.index.offset, b.index.offset) != (1, 1, 0, 0) or a.stride != b.stride * b.size:
        return None
    return AccessedDim(Index((Term(x.axis, 1, y.div, x.mod * b.size),)), a.size * b.size, b.stride)


# ---- kernels ------------------------------------------------------------------------------------------------------------


class Kernel(Function):
    """A body run once per point of the grid.

    ``axes`` holds every axis, grid axes in grid order (slowest first); ``family`` names the loop-nest family it was
    lowered by, ``schedule`` what it was lowered with.  Its arguments are buffers, or scalar tiles given at run time.
    """

    family: str
    axes: tuple[Axis, ...]
    schedule: Schedule

    @cached_property
    def axis(self) -> Mapping[str, Axis]:
        return {a.name: a for a in self.axes}

    @property
    def grid(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if a.kind == "grid")

    @cached_property
    def written(self) -> frozenset[Op]:
        """The buffers this kernel stores to."""
        return frozenset(op.buffer for op in self.body.walk() if isinstance(op, Store))

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The open dims the kernel must be told, sorted by name."""
        found: set[str] = set()
        for a in self.axes:
            found |= names_of(a.extent)
        for arg in self.args:
            t = arg.type
            if not isinstance(t, BufferType):
                continue
            for size in (*t.shape, *(t.strides or ())):
                found |= names_of(size)
        for op in self.body.walk():
            if isinstance(op, Extent):
                found |= names_of(op.size)
            if isinstance(op, Load | Store):
                for index in op.indices:
                    found |= names_of(index.offset).union(*(names_of(t.scale) for t in index.terms))
        return tuple(sorted(found))

    def may_overrun(self, access: Load | Store) -> tuple[str, ...]:
        """Axes of ``access`` along which its tile may reach outside the buffer (so a bounds check is needed).

        An index that is not a plain coordinate may overrun unless its reach is known to fit.  A gathered coordinate has no
        axis here: it is compared with the buffer's size wherever it is used.
        """
        shape = buffer_type(access.buffer).shape
        found: list[str] = []
        for index, size in zip(access.indices, shape, strict=True):
            for name in index.axes:
                if name not in found and not self._fits(index, size):
                    found.append(name)
        return tuple(found)

    def _fits(self, index: Index, size: Size) -> bool:
        if index.gather >= 0:
            return False
        plain = index.plain
        if plain is not None and self.axis[plain].extent == size:
            return not self.axis[plain].ragged
        low: Size = index.offset
        high: Size = index.offset
        for t in index.terms:
            a = self.axis[t.axis]
            last: Size = t.mod - 1 if t.mod else (a.steps * a.tile - 1) // t.div
            if not isinstance(t.scale, int):
                return False
            low, high = (low + last * t.scale, high) if t.scale < 0 else (low, high + last * t.scale)
        return isinstance(low, int) and low >= 0 and isinstance(high - size, int) and high - size < 0  # type: ignore[operator]


def verify_kernel(kernel: Kernel) -> None:
    """Scope and axis rules of a kernel; raises :class:`IRError` at the operation that breaks one."""
    verify(kernel)
    if len(kernel.axis) != len(kernel.axes):
        raise IRError(f"{kernel.name}: an axis is declared twice")

    def visit(block: Block, open_axes: frozenset[str]) -> None:
        for op in block.ops:
            used: tuple[str, ...] = ()
            if isinstance(op, Load | Store):
                used = tuple(a for i in op.indices for a in i.axes)
            elif isinstance(op, Coord | Start):
                used = (op.axis,)
            for name in used:
                if name not in kernel.axis:
                    op.fail(f"axis {name} is not declared by {kernel.name}")
                if name not in open_axes:
                    op.fail(f"the loop axis {name} is used outside its For")
            if isinstance(op.type, TileType):
                for name, size in op.type.dims:
                    if name not in kernel.axis or kernel.axis[name].tile != size:
                        op.fail(f"the dim {name}:{size} is not that of a declared axis")
            if isinstance(op, Store) and op.buffer not in kernel.body.args:
                op.fail("stores to something that is not an argument of the kernel")
            if isinstance(op, For):
                if op.axis not in kernel.axis or kernel.axis[op.axis].kind != "loop":
                    op.fail(f"{op.axis} is not a loop axis of {kernel.name}")
                visit(op.body, open_axes | {op.axis})
                continue
            for region in op.regions:
                visit(region, open_axes)

    visit(kernel.body, frozenset(a.name for a in kernel.axes if a.kind != "loop"))


__all__ = [
    "BINARY", "COMPARE", "PRECISION", "REDUCE", "UNARY", "Arg", "ArgReduce", "Axis", "Binary", "Bitcast", "Broadcast",
    "BufferType", "Cast", "Compare", "Const", "Coord", "Dim", "Dims", "Dot", "Extent", "Fma", "For", "Index", "Kernel",
    "Load", "Mask", "Permute", "Reduce", "Scan", "ScanBy", "Select", "SortBy", "Start", "Store", "Term", "TileType", "Unary",
    "begins_inside", "buffer_type", "ends_inside", "identity", "starts_anew", "tile_type", "verify_kernel",
]  # fmt: skip
