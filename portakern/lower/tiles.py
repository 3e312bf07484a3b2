"""Writes tensor values as tiles: given the coordinates of a value's dims, the operations that compute its tile.

Coordinates are pushed from a value down to the arrays it is computed from; elementwise values are computed in f32 (or
f64, i32, i64, bool), loads widen and stores narrow.  Reductions and contractions are not written here: a family puts
their tiles into :attr:`TileWriter.known` first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.errors import LoweringError, LoweringGap
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block, Op, at, yielded
from portakern.ir.size import Size
from portakern.lower.classes import matched_dims
from portakern.lower.pages import Piece, taken_apart
from portakern.lower.placing import Line, Placed


@dataclass(frozen=True)
class Part:
    """One of several neighbouring dims that run as a single merged axis: dim ``position`` of ``count``, of ``size`` elements,
    each of which has ``inner`` elements of the dims behind it."""

    axis: str
    position: int
    count: int
    inner: Size = 1
    size: Size = 1

    @property
    def index(self) -> t.Index | None:
        """The coordinate along the dim, by division of that along the axis; ``None`` where open dims make the divisor."""
        if not isinstance(self.inner, int) or not isinstance(self.size if self.position else 0, int):
            return None
        return t.Index((t.Term(self.axis, 1, self.inner, self.size if self.position else 0),))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Reaching:
    """Coordinates of which some may be outside of their dim, where ``fill`` is read."""

    index: t.Index
    fill: float | int | bool


@dataclass(frozen=True)
class Picked:
    """Coordinates that a kernel computes: an integer tile, and what stands for elements that it picks outside of the dim."""

    tile: Op
    fill: float | int


Coordinate = t.Index | Part | Picked | Reaching
Coordinates = tuple[Coordinate, ...]
ZERO = t.Index()
LEAVES_THE_RANGE = {"neg", "abs", "not", "add", "sub", "mul", "div", "floordiv", "pow", "shl"}
"""Functions whose result may be no number of the integers that it was computed from."""


def wide(dtype: str) -> str:
    """The dtype a value is computed in."""
    kind = DTYPES[dtype]
    if kind.is_float:
        return dtype if kind.bits >= 32 else "f32"
    return "i32" if kind.is_int and kind.bits < 32 else dtype


class Arrays:
    """The kernel's arguments: one per array, created when first used, each seen in one shape."""

    def __init__(self, types: Mapping[str, t.BufferType | t.TileType]) -> None:
        self.types = types
        self.args: dict[str, Arg] = {}

    def dtype(self, name: str) -> str:
        have = self.types[name]
        return have.dtype

    def scalar(self, name: str) -> Arg:
        return self.args.setdefault(name, Arg(name, self.types[name]))

    def view(self, name: str, shape: tuple[Size, ...]) -> Arg:
        have = self.types[name]
        assert isinstance(have, t.BufferType)
        if shape != have.shape and have.strides is not None:
            raise LoweringError(f"{name} is strided, and cannot be seen as an array of {shape} without a copy",
                                hint="give it contiguous, or without strides=")
        seen = have if shape == have.shape else t.BufferType(shape, have.dtype, None, have.align)
        arg = self.args.setdefault(name, Arg(name, seen))
        if arg.of != seen:
            raise LoweringGap(f"{name} is seen in two shapes by one kernel: {arg.of} and {seen}",
                              hint="reshape it once and use the result")
        return arg

    def access(self, name: str, shape: tuple[Size, ...], indices: tuple[t.Index, ...]) -> tuple[Arg, tuple[t.Index, ...]]:
        """``name`` and where to access it so that it is element ``indices`` of an array of ``shape``: a second view of it that
        has other dims of 1 goes through the first."""
        first = self.args.get(name)
        seen = first.of.shape if first is not None and isinstance(first.of, t.BufferType) else shape
        if first is not None and seen != shape and [s for s in seen if s != 1] == [s for s in shape if s != 1]:
            long = (i for i, size in zip(indices, shape, strict=True) if size != 1)
            return first, tuple(ZERO if size == 1 else next(long) for size in seen)
        return self.view(name, shape), indices


class TileWriter:
    """Writes values of one stage with ``builder``; ``known`` holds tiles of reductions and contractions by value, ``lines`` the
    arrays that have one dim more than the stage knows of."""

    def __init__(self, builder: Builder, arrays: Arrays, lines: Mapping[str, Line] | None = None) -> None:
        self.b = builder
        self.lines = lines or {}
        self.arrays = arrays
        self.known: dict[Op, Op] = {}
        self.memo: list[dict[tuple[Op, Coordinates], Op]] = [{}]

    # ---- scopes: what is written inside a loop is not known outside it

    def push(self) -> None:
        self.memo.append({})

    def pop(self) -> None:
        self.memo.pop()

    def value(self, op: Op, coords: Coordinates) -> Op:
        """The tile of ``op`` at ``coords``, in the wide dtype."""
        if op in self.known:
            return self.known[op]
        for scope in self.memo:
            if (op, coords) in scope:
                return scope[(op, coords)]
        with at(op.loc):
            tile = self._write(op, coords)
        self.memo[-1][(op, coords)] = tile
        return tile

    def hold(self, op: Op, coords: Coordinates, tile: Op) -> None:
        """``tile`` is ``op`` at ``coords``, in this scope."""
        self.memo[-1][(op, coords)] = tile

    def apply(self, block: Block, args: Sequence[Op]) -> tuple[Op, ...]:
        """What ``block``, a function of scalars, gives for tiles of elements."""
        self.push()
        self.known.update(zip(block.args, args, strict=True))
        results = tuple(self.value(v, ()) for v in yielded(block))
        for arg in block.args:
            del self.known[arg]
        self.pop()
        return results

    def narrow(self, op: Op, coords: Coordinates) -> Op:
        """The tile of ``op`` in its own dtype, as matrix units and stores want it."""
        return self.b.cast(self.value(op, coords), tt.tensor_type(op).dtype)

    def _write(self, op: Op, coords: Coordinates) -> Op:
        b = self.b
        match op:
            case Arg():
                return self._argument(op, coords)
            case tt.Literal():
                kind = DTYPES[wide(op.dtype)]
                value = op.value if op.dtype == "bool" else float(op.value) if kind.is_float else int(op.value)
                return b.const(value, kind.name)
            case tt.DimSize():
                # A count of elements, as a mean divides by, may be more than 32 bits hold.
                dtype = "i64" if op.dtype == "i64" or DTYPES[op.dtype].is_float else "i32"
                return b.cast(b.scalar_size(op.size, dtype), wide(op.dtype))
            case tt.Iota():
                return b.cast(self._coordinate(coords[op.axis], op.dtype), wide(op.dtype))
            case tt.Map():
                return self._map(op, coords)
            case tt.Convert():
                return self._convert(op, coords)
            case tt.Expand():
                shape = tt.tensor_type(op.x).shape
                inner = tuple(coords[d] if shape[i] == op.shape[d] else ZERO for i, d in enumerate(op.dims))
                return self.value(op.x, inner)
            case tt.Transpose():
                return self.value(op.x, tuple(coords[op.order.index(i)] for i in range(len(op.order))))
            case tt.Gather():
                return self._gather(op, coords)
            case tt.Slice():
                sizes = tt.tensor_type(op).shape
                return self.value(op.x, tuple(self._moved(c, step, lo, size) for c, step, lo, size
                                              in zip(coords, op.steps, op.starts, sizes, strict=True)))
            case tt.Windows():
                return self.value(op.x, self.in_windows(op, coords))
            case tt.Flip():
                shape = op.type.shape  # type: ignore[attr-defined]
                return self.value(op.x, tuple(self._moved(c, -1, shape[i] - 1, shape[i]) if i in op.axes else c
                                              for i, c in enumerate(coords)))
            case tt.Reshape():
                return self._reshape(op, coords)
            case tt.BitConvert():
                return b.cast(b.add(t.Bitcast(self.narrow(op.x, coords), op.dtype)), wide(op.dtype))
        raise LoweringGap(f"{op.mnemonic()} cannot be computed inside an elementwise region", where=str(op.loc or ""))

    def _argument(self, op: Arg, coords: Coordinates) -> Op:
        if isinstance(self.arrays.types[op.name], t.TileType):
            return self.arrays.scalar(op.name)
        return self.load(op, tt.tensor_type(op).shape, coords)

    def load(self, op: Arg, shape: tuple[Size, ...], coords: Coordinates) -> Op:
        shape, coords = self.in_line(op.name, shape, coords)
        fill = next((c.fill for c in coords if isinstance(c, Reaching)), None)
        first = self.arrays.args.get(op.name)
        by_dims = first is not None and getattr(first.of, "shape", ()) == shape and any(isinstance(c, Part) for c in coords)
        if fill is not None or by_dims:  # pixels are found along every dim, also where their array is read once more
            coords = tuple(_separate(c) if isinstance(c, Part | Reaching) else c for c in coords)
        view, indices = collapse(shape, coords)
        dtype = tt.tensor_type(op).dtype
        picked = [c for c in coords if isinstance(c, Picked)]
        if picked:
            return self.b.cast(self._load_picked(op.name, view, indices, picked), wide(dtype))
        array, where = self.arrays.access(op.name, view, indices)
        return self.b.cast(self.b.load(array, where, fill, None if fill is None else self._taps_first(where)), wide(dtype))

    def _taps_first(self, indices: Sequence[t.Index]) -> Sequence[str] | None:
        """The axes of a tile of pixels whose taps run along an axis of it, too, with this axis first."""
        axes = dict.fromkeys(a for i in indices for a in i.axes)
        crossed = any(len(self.b.dims(*i.axes)) > 1 for i in indices)
        return sorted(axes, key=lambda a: self.b.axis[a].kind != "loop") if crossed else None

    def in_line(self, name: str, shape: tuple[Size, ...], coords: Coordinates) -> tuple[tuple[Size, ...], Coordinates]:
        """``shape`` and ``coords`` in the whole of an array that the stage has one element of."""
        line = self.lines.get(name)
        if line is None:
            return shape, coords
        if (begin := line.leading) is not None:
            return (*line.of.shape[: len(begin)], *shape), (*begin, *coords)
        as_is = shape == line.own(line.of.shape)
        left = iter(c for size, c in zip(shape, coords, strict=True) if as_is or size != 1)
        each = zip(line.places, line.of.shape, strict=True)
        return line.of.shape, tuple(p if p is not None else next(left) if as_is or size != 1 else ZERO for p, size in each)

    def _load_picked(self, name: str, view: tuple[Size, ...], indices: tuple[t.Index, ...], picked: Sequence[Picked]) -> Op:
        """The elements of ``name`` that the tiles ``picked`` say, in dims as the indices and these tiles have them."""
        order: dict[str, None] = {}
        for i in indices:
            order |= dict.fromkeys(i.axes if i.gather < 0 else t.tile_type(picked[i.gather].tile).axes)
        dims = self.b.dims(*order)
        tiles = tuple(self.b.permute(p.tile, [a for a, _ in dims if a in t.tile_type(p.tile).axes]) for p in picked)
        fill, kind = picked[0].fill, DTYPES[self.arrays.dtype(name)]
        pad = float(fill) if kind.is_float else int(fill) if kind.is_int else bool(fill)
        return self.b.add(t.Load(*self.arrays.access(name, view, indices), dims, pad, tiles))

    def _gather(self, op: tt.Gather, coords: Coordinates) -> Op:
        """The elements of an array, or of a view of one, at coordinates that are computed here."""
        n = 1 if op.zipped else tt.tensor_type(op.indices).rank
        at = coords if op.zipped else coords[op.axis : op.axis + n]
        index = self.value(op.indices, at)
        return self.value(op.x, (*coords[: op.axis], Picked(index, op.fill), *coords[op.axis + n :]))

    def _reshape(self, op: tt.Reshape, coords: Coordinates) -> Op:
        inner = tt.tensor_type(op.x).shape
        matched = matched_dims(inner, op.shape)
        if len(matched) == sum(s != 1 for s in inner):
            return self.value(op.x, tuple(coords[matched[i]] if i in matched else ZERO for i in range(len(inner))))
        if isinstance(op.x, Arg):
            return self.load(op.x, op.shape, coords)
        apart = [_added_up(pieces, coords) for pieces in taken_apart(inner, op.shape) or []]
        if apart and all(apart):
            return self.value(op.x, tuple(apart))  # type: ignore[arg-type]
        raise LoweringGap("a reshape that splits or joins dims of a computed value inside a kernel", where=str(op.loc or ""),
                          hint="make what is reshaped the output of an operator of its own, and please report this")

    def in_windows(self, op: tt.Windows, coords: Coordinates) -> Coordinates:
        """The coordinates of ``op.x``: where a window begins, and from there the way inside it."""
        inner = list(coords[: len(coords) - len(op.dims)])
        taps = coords[len(inner) :]
        for d, tap, stride, dilation in zip(op.dims, taps, op.strides, op.dilation, strict=True):
            begin, way = self._affine(inner[d], stride, 0), self._affine(tap, dilation, 0)
            inner[d] = t.Index((*begin.terms, *way.terms), begin.offset + way.offset)
        if op.reaching:
            for d, low in zip(op.dims, op.low, strict=True):
                inner[d] = Reaching(self._affine(inner[d], 1, -low), op.fill)
        return tuple(inner)

    def _moved(self, c: Coordinate, scale: int, offset: Size, size: Size) -> t.Index | Picked:
        """``scale * c + offset``, for a coordinate along a dim of ``size``."""
        return self._affine_picked(c, scale, offset, size) if isinstance(c, Picked) else self._affine(c, scale, offset)

    def _affine(self, c: Coordinate, scale: Size, offset: Size) -> t.Index:
        c = _separate(c)
        terms = tuple(t.Term(x.axis, x.scale * scale, x.div, x.mod) for x in c.terms)
        return t.Index(terms, c.offset * scale + offset, c.gather)

    def _affine_picked(self, c: Picked, scale: int, offset: Size, size: Size) -> Picked:
        """What lies outside of the slice is made to lie outside of the array too."""
        b, dtype = self.b, t.tile_type(c.tile).dtype
        low, high = b.compare("ge", c.tile, b.const(0, dtype)), b.compare("lt", c.tile, b.scalar_size(size, dtype))
        inside = b.binary("and", low, high)
        signed = dtype if DTYPES[dtype].kind == "int" else "i64"
        near = b.cast(b.select(inside, c.tile, b.const(0, dtype)), signed)  # far ones might leave the dtype below
        moved = near if scale == 1 else b.binary("mul", near, b.const(scale, signed))
        moved = b.binary("add", moved, b.scalar_size(offset, signed))
        return Picked(b.select(inside, moved, b.const(-1, signed)), c.fill)

    def _coordinate(self, c: Coordinate, dtype: str) -> Op:
        c = c.index or c if isinstance(c, Part) else c
        if not isinstance(c, t.Index):
            raise LoweringGap("a coordinate along a merged axis")
        word = "i64" if DTYPES[dtype].bits == 64 and DTYPES[dtype].is_int else "i32"
        total: Op | None = None
        for x in c.terms:
            part = self.b.coord(x.axis, word)
            part = part if x.div == 1 else self.b.binary("floordiv", part, self.b.scalar_size(x.div, word))
            part = self.b.binary("rem", part, self.b.scalar_size(x.mod, word)) if x.mod else part
            if x.scale != 1:
                part = self.b.binary("mul", part, self.b.scalar_size(x.scale, word))
            total = part if total is None else self.b.binary("add", total, part)
        if total is None:
            return self.b.scalar_size(c.offset, word)
        return total if c.offset == 0 else self.b.binary("add", total, self.b.scalar_size(c.offset, word))

    def _map(self, op: tt.Map, coords: Coordinates) -> Op:
        args = [self.value(a, coords if tt.tensor_type(a).shape else ()) for a in op.args]
        if op.fn == "select":
            return self.b.select(*args)
        if op.fn in t.COMPARE:
            return self.b.compare(op.fn, *args)
        made = self.b.unary(op.fn, *args) if len(args) == 1 else self.b.binary(op.fn, *args)
        return self._wrapped(made, tt.tensor_type(op).dtype) if op.fn in LEAVES_THE_RANGE else made

    def _wrapped(self, x: Op, dtype: str) -> Op:
        """``x`` as an integer of ``dtype`` leaves it where it is computed in a wider one: 0 less 1 is 255 in u8."""
        return x if not DTYPES[dtype].is_int or wide(dtype) == dtype else self.b.cast(self.b.cast(x, dtype), wide(dtype))

    def _convert(self, op: tt.Convert, coords: Coordinates) -> Op:
        x = self.value(op.x, coords)
        have = t.tile_type(x).dtype
        if op.dtype == "bool":
            zero = self.b.const(False if have == "bool" else 0.0 if DTYPES[have].is_float else 0, have)
            return x if have == "bool" else self.b.compare("ne", x, zero)
        return self.b.cast(self.b.cast(x, op.dtype), wide(op.dtype))

    # ---- stores

    def store(self, op: Op, name: str, shape: tuple[Size, ...], coords: Coordinates, place: Placed | None = None) -> None:
        """Store ``op``, whose dims run along ``coords``, to the array ``name``, or to the piece ``place`` of an array."""
        where = coords
        if place is not None:
            name, shape = place.array, place.of.shape
            where = tuple(self._affine(c, step, offset) if moved else c for c, step, offset, moved
                          in zip(coords, place.steps, place.offsets, place.moved, strict=True))
            if any(moved and isinstance(c, Part) for c, moved in zip(coords, place.moved, strict=True)):
                where = tuple(_separate(c) if isinstance(c, Part) else c for c in where)  # pixels, each at its own place
        view, indices = collapse(*self.in_line(name, shape, where))
        value = self.b.cast(self.value(op, coords if tt.tensor_type(op).shape else ()), self.arrays.dtype(name))
        order = [*dict.fromkeys(a for i in indices for a in i.axes)]
        dims = self.b.dims(*order)
        buffer = self.arrays.view(name, view)
        self.b.store(self.b.fit(self._without_single(value, order), dims), buffer, indices)

    def _without_single(self, value: Op, kept: Sequence[str]) -> Op:
        """``value`` without the dims of axes that have a single element and are not stored along."""
        for axis in t.tile_type(value).axes:
            if axis not in kept and self.b.axis[axis].extent == 1:
                dtype = t.tile_type(value).dtype
                wider = self.b.add(t.Mask(self.b.cast(value, wide(dtype)), axis, 0))
                value = self.b.cast(self.b.add(t.Reduce("sum", wider, axis)), dtype)
        return value


def _separate(c: Coordinate) -> t.Index:
    """``c`` by itself, without the dims that it is merged with."""
    found = c.index if isinstance(c, Part | Reaching) else c
    if not isinstance(found, t.Index):
        raise LoweringGap("a slice of a merged axis")
    return found


def _added_up(pieces: Sequence[Piece], coords: Coordinates) -> t.Index | None:
    """The sum of ``pieces`` of plain coordinates, or of none; None where they are no such."""
    terms: list[t.Term] = []
    for p in pieces:
        c = _separate(coords[p.dim])
        if c == ZERO:
            continue
        if len(c.terms) != 1 or c.gather >= 0 or (c.offset, c.terms[0].scale, c.terms[0].mod) != (0, 1, 0):
            return None
        (term,) = c.terms
        terms.append(t.Term(term.axis, p.scale, term.div * p.div, p.mod))
    return t.Index(tuple(terms))


def collapse(shape: tuple[Size, ...], coords: Sequence[Coordinate]) -> tuple[tuple[Size, ...], tuple[t.Index, ...]]:
    """Shape and indices with neighbouring parts of a merged axis made one dim.  Dims of 1 between them come after it."""
    sizes: list[Size] = []
    indices: list[t.Index] = []
    begun: dict[str, int] = {}
    gathers = 0
    merged = any(isinstance(c, Part) for c in coords)
    for size, c in zip(shape, coords, strict=True):
        if merged and size == 1 and c == ZERO:
            continue
        if isinstance(c, Part) and c.position > 0:
            sizes[begun[c.axis]] = sizes[begun[c.axis]] * size
            continue
        if isinstance(c, Part):
            begun[c.axis] = len(sizes)
        sizes.append(size)
        picked = isinstance(c, Picked)
        indices.append(t.Index.of(c.axis) if isinstance(c, Part) else t.Index((), 0, gathers) if picked else _separate(c))
        gathers += isinstance(c, Picked)
    return tuple(sizes), tuple(indices)
