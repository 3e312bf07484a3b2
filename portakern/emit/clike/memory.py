"""Addresses: the index grammar of loads and stores in C's terms, 64-bit from the buffer's start to the tile's origin."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from portakern.emit.clike.expressions import constant
from portakern.emit.clike.plan import Access
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, Word, add, call, divide, multiply, remainder, size_term, whole
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.size import Size, Sym, at_most, never_negative

_NARROW = 1 << 31
"""Coordinates below are taken apart in 32 bits, which divides faster."""


class Addresses:
    """Addresses of one kernel.  ``start`` gives the first coordinate of each axis's tile (zero where it is always that) and
    ``left`` how many coordinates remain from there."""

    def __init__(self, kernel: t.Kernel) -> None:
        self.kernel = kernel
        self.start: dict[str, PlanTerm] = {}
        self.used_left: set[str] = set()
        self.left_name: dict[str, str] = {}

    def left(self, axis: str, inline: bool = False) -> PlanTerm:
        """How many coordinates of ``axis`` remain from the tile's first one, clamped to 32 bits."""
        extent, start = self.kernel.axis[axis].extent, self.start[axis]
        if start == ZERO and isinstance(extent, int):
            return whole(extent)
        if inline:
            return self.count_left(axis)
        self.used_left.add(axis)
        return Name(self.left_name[axis])

    def count_left(self, axis: str) -> PlanTerm:
        return call("left", "pk::left", size_term(self.kernel.axis[axis].extent), self.start[axis])

    def coordinate(self, index: t.Index) -> PlanTerm:
        """The coordinate of the tile's first element along one dim of the buffer."""
        total: PlanTerm = ZERO
        for term in index.terms:
            base = self.start[term.axis]
            if base != ZERO:
                base = base if term.div == 1 else divide(base, whole(term.div))
                base = base if not term.mod else remainder(base, whole(term.mod))
                total = add(total, multiply(base, size_term(term.scale)))
        return add(total, size_term(index.offset))

    def access(self, op: t.Load | t.Store, buffer: str, dims: t.Dims, inline_left: frozenset[str] = frozenset()) -> Access:
        """The access of ``op`` for a tile of ``dims``; what is left along the axes ``inline_left`` is spelled out."""
        have = t.buffer_type(op.buffer)
        found = pixels(self.kernel, op)
        kept = [(d.index, d.stride) for d in t.joined_dims(op) if d not in found]
        origin: PlanTerm = Name(buffer)
        for index, stride in kept:
            origin = add(origin, multiply(self.coordinate(index), size_term(stride)))
        steps: list[PlanTerm] = []
        for axis, _ in dims:
            total: Size = 0
            for index, stride in kept:
                for term in index.terms:
                    if term.axis == axis:
                        total = total + stride * term.scale if isinstance(stride, Sym) else total + term.scale * stride
            steps.append(size_term(total))
        over = reaching_out(self.kernel, op)
        picked = bool(found) or (isinstance(op, t.Load) and bool(op.gathers))
        pad: PlanTerm | None = None
        if isinstance(op, t.Load) and (op.pad is not None or picked):
            pad = constant(op.pad or 0, have.dtype if have.dtype in ("f64", "bool") or _whole(have.dtype) else "f32")
        if not any(axis in over for axis, _ in dims) and not picked:
            return Access(origin, tuple(steps))
        left = tuple(self.left(axis, axis in inline_left) if axis in over else whole(n) for axis, n in dims)
        return Access(origin, tuple(steps), left, pad)

    def listed(self, op: t.Load, buffers: Mapping[Op, str]) -> tuple[PlanTerm, ...]:
        """What ``op`` picks from its array where a copy reads, for each row, the integer of another array that says it."""
        have = t.buffer_type(op.buffer)
        found: list[PlanTerm] = []
        for index, size, stride in zip(op.indices, have.shape, have.element_strides, strict=True):
            if index.gather >= 0:
                coordinate = self._looked_up(op.gathers[index.gather], buffers)
                found.append(call("along", "pk::along", coordinate, size_term(size), size_term(stride)))
        return tuple(found)

    def _looked_up(self, table: Op, buffers: Mapping[Op, str]) -> PlanTerm:
        """The integers that rows have in ``table``: row i has the one at some part of the coordinate of row i."""
        assert isinstance(table, t.Load)
        ((axis, _),) = table.dims
        origin: PlanTerm = Name(buffers[table.buffer])
        place: PlanTerm = ZERO
        for dim in t.joined_dims(table):
            if axis in dim.index.axes:
                place = call("along", "pk::along", self._part(dim.index, axis), size_term(dim.size), size_term(dim.stride))
            else:
                origin = add(origin, multiply(self.coordinate(dim.index), size_term(dim.stride)))
        return call("listed", "pk::listed", origin, place)

    def _part(self, index: t.Index, axis: str) -> PlanTerm:
        """``index`` of every row along ``axis``."""
        along = next(x for x in index.terms if x.axis == axis)
        rest = self.coordinate(t.Index(tuple(x for x in index.terms if x is not along), index.offset))
        extent = self.kernel.axis[axis].extent
        word = "part" if isinstance(extent, int) and extent < _NARROW else "wide_part"
        numbers = [along.div, along.mod, along.scale]
        while len(numbers) > 1 and numbers[-1] == (1 if len(numbers) == 3 else 0):
            numbers.pop()
        begin = () if rest == ZERO else (rest,)
        return call(word, f"pk::{word}<{', '.join(map(str, numbers))}>", self.start[axis], *begin)

    def pixels(self, op: t.Load | t.Store, rows: str) -> tuple[PlanTerm, ...]:
        """The coordinates of the rows of ``op``, which run along the axis ``rows``, or of its columns, along the dims in which
        they are pixels; each with the size and stride of its dim."""
        axes = _tiled(op)
        terms: list[PlanTerm] = []
        planes = isinstance(op, t.Load) and of_planes(self.kernel, op)
        for dim in pixels(self.kernel, op):
            inside = planes and _inside(dim, self.kernel)
            size = Word(INSIDE) if inside else size_term(dim.size)
            terms.append(call("along", "pk::along", self._found(dim.index, axes, rows, inside), size, size_term(dim.stride)))
        return tuple(terms)

    def _found(self, index: t.Index, axes: Container[str], rows: str, inside: bool) -> PlanTerm:
        """``index`` in each row, or in each column, or what both add up to."""
        along = [x for x in index.terms if x.axis in axes]
        if not along:
            return self.coordinate(index)
        by_row = [x for x in along if x.axis == rows]
        if len(along) > 1:
            row, col = by_row[0], next(x for x in along if x.axis != rows)
            rest = t.Index(tuple(x for x in index.terms if x is not row), index.offset)
            taps = self._part(t.Index((self._counted(row),)), row.axis)
            word = "pk::cross<true>" if inside else "pk::cross"
            return call("cross", word, taps, call("columns", "pk::columns", self._part(rest, col.axis)))
        where = self._part(index, along[0].axis)
        return where if by_row else call("columns", "pk::columns", where)


    def _counted(self, term: t.Term) -> t.Term:
        """``term``, which says how many values it has."""
        extent = self.kernel.axis[term.axis].extent
        return term if term.mod or not isinstance(extent, int) else replace(term, mod=-(-extent // term.div))


INSIDE = "pk::kInside"
"""The size of a dim of which nothing is read outside."""


def _inside(dim: t.AccessedDim, kernel: t.Kernel) -> bool:
    """Whether all coordinates along ``dim`` are inside of it."""
    low, high = reach(dim.index, kernel)
    beyond = at_most(high - dim.size)
    return never_negative(low) and isinstance(beyond, int) and beyond < 0


def of_planes(kernel: t.Kernel, op: t.Load) -> bool:
    """Whether the columns of ``op`` are pixels that rows, their taps, are added to."""
    return any(_crossed(d, op) for d in pixels(kernel, op))


def _crossed(dim: t.AccessedDim, op: t.Load) -> bool:
    return len({x.axis for x in dim.index.terms} & _tiled(op)) > 1


def taps_reaching_out(kernel: t.Kernel, op: t.Load, rows: str) -> int:
    """How many taps, along all dims together, may be outside of the planes of ``op``."""
    crossed = [d for d in pixels(kernel, op) if _crossed(d, op) and not _inside(d, kernel)]
    along = [x for d in crossed for x in d.index.terms if x.axis == rows]
    return sum(x.mod or -(-int(kernel.axis[rows].extent) // x.div) for x in along)  # type: ignore[call-overload]


def _tiled(op: t.Load | t.Store) -> set[str]:
    """The axes of the tile that ``op`` moves."""
    return {a for a, _ in (op.dims if isinstance(op, t.Load) else t.tile_type(op.value).dims)}


def pixels(kernel: t.Kernel, op: t.Load | t.Store) -> tuple[t.AccessedDim, ...]:
    """The dims of its array along which ``op`` finds each row of its tile by itself: the coordinate of a row is taken apart, or
    may lie outside, where its padding is read.  None is stored outside."""
    bare = isinstance(op, t.Load) and (op.pad is None or bool(op.gathers))  # nothing is read outside but what is picked
    axes = _tiled(op)
    found: list[t.AccessedDim] = []
    for dim in t.joined_dims(op):
        apart = any(x.axis in axes and (x.div != 1 or x.mod) for x in dim.index.terms)
        if bare:
            found += [dim] if apart else []
            continue
        low, high = reach(dim.index, kernel)
        beyond = at_most(high - dim.size)
        outside = not never_negative(low) or not isinstance(beyond, int) or beyond >= 0
        outside = outside and (bool(dim.index.terms) or isinstance(low, int))  # the number of a step is inside of its line
        if apart or (outside and isinstance(op, t.Load)):
            found.append(dim)
    return tuple(found) if any(d.index.plain is None for d in found) else ()


def reach(index: t.Index, kernel: t.Kernel) -> tuple[Size, Size]:
    """The lowest and highest value of ``index`` while every coordinate is inside its axis's extent."""
    low: Size = index.offset
    high: Size = index.offset
    for term in index.terms:
        last: Size = kernel.axis[term.axis].extent - 1
        last = last // term.div if term.div != 1 else last
        last = term.mod - 1 if term.mod else last
        so_far = last * term.scale if isinstance(last, Sym) else term.scale * last
        if isinstance(term.scale, int) and term.scale < 0:
            low = low + so_far
        else:
            high = high + so_far
    return low, high


def reaching_out(kernel: t.Kernel, op: t.Load | t.Store) -> frozenset[str]:
    """The axes along which the tile of ``op`` needs a bounds check.

    A coordinate inside its axis's extent is inside the buffer (see the rules), so what is left is counted along the axis.
    A load may read what lies in the buffer beyond an axis; a store never writes there.  What is gathered for a coordinate
    beyond an axis would be read for nothing.
    """
    if isinstance(op, t.Load) and (op.gathers or pixels(kernel, op)):
        return frozenset(a for a, _ in op.dims if kernel.axis[a].ragged)
    if isinstance(op, t.Store):
        return frozenset(a for index in op.indices for a in index.axes if kernel.axis[a].ragged)
    return frozenset(a for a in kernel.may_overrun(op) if kernel.axis[a].ragged)


def _whole(dtype: str) -> bool:
    return dtype[0] in "iu"
