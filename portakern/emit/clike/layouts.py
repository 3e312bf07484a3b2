"""Which layout each tile of a kernel lives in.

Elementwise operations, loop carries and the accumulator of a matrix product keep their operands' layout, so values are
joined into groups (union-find) and each group gets one layout:

- a group of tiles with two dims that a matrix product accumulates into has the ``accumulator`` layout of the hardware, any
  other one the ``rows`` layout.  Where products of several dtypes meet in a group, the layout is that of the narrowest: a
  matrix unit writes in its own order, while products done by multiply-adds can accumulate in any.  Units that differ in their
  order (``apart``) are not joined;
- a group of one-dim tiles is a vector of the two-dim layout it meets: it has one value per row (``row``) or per column
  (``col``) of it.  One that is itself reduced to a scalar, or meets no other, is a ``rows`` layout of one row.

Constants spread over a tile and coordinates belong to no group: they take the layout of whatever uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.emit.clike.names import identifier
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, yielded

ELEMENTWISE = (t.Unary, t.Binary, t.Fma, t.Compare, t.Select, t.Cast, t.Bitcast, t.Mask)


@dataclass(frozen=True)
class Layout:
    """Where the elements of tiles over ``axes`` (row axis, column axis) live.

    ``kind`` is ``rows`` or ``accumulator``; ``element`` the operand dtype of the accumulator's matrix product.  The row
    axis is "" where there is one row only.
    """

    name: str
    kind: str
    rows: int
    cols: int
    axes: tuple[str, str]
    element: str = ""

    def __str__(self) -> str:
        element = f" of {self.element}" if self.element else ""
        return f"{self.name}: {self.kind}{element} [{self.axes[0] or 1}:{self.rows}, {self.axes[1]}:{self.cols}]"


@dataclass(frozen=True)
class Place:
    """A layout, or the vector with one value for each of its rows (``row``) or columns (``col``)."""

    layout: Layout
    side: str = "tile"

    def vector(self, axis: str) -> Place:
        """The vector over ``axis`` of this tile."""
        return Place(self.layout, "row" if self.layout.axes[0] == axis else "col")

    @property
    def size(self) -> int:
        """Number of elements of the vector, or rows times columns."""
        rows, cols = self.layout.rows, self.layout.cols
        return rows if self.side == "row" else cols if self.side == "col" else rows * cols

    def __str__(self) -> str:
        return {"tile": "{}", "row": "row of {}", "col": "col of {}"}[self.side].format(self.layout.name)


def tiles_of(block: Block) -> Iterator[Op]:
    """Every operation inside ``block`` in order; how two parts of a loop are joined is not code of the kernel."""
    for op in block.ops:
        yield op
        if isinstance(op, t.For):
            yield from op.body.args
            yield from tiles_of(op.body)


def dims_of(op: Op) -> t.Dims:
    return op.type.dims if isinstance(op.type, t.TileType) else ()


def floating(op: Op) -> bool:
    """Whether ``op`` is computed anew wherever it is used: constants spread out, and short expressions of coordinates."""
    if isinstance(op, t.Coord | t.Const | t.Start | t.Extent):
        return True
    if isinstance(op, t.Broadcast):
        return not dims_of(op.x) or floating(op.x)
    if isinstance(op, t.Cast) and isinstance(op.x, t.Const | t.Extent):
        return True
    if not dims_of(op) or not isinstance(op, ELEMENTWISE) or isinstance(op, t.Mask):
        return False
    if _left_of(MOST_ANEW, op) < 0:
        return False
    parts = [x for x in op.operands if dims_of(x)]
    return _of_coordinates(op) and all(floating(x) for x in parts)


MOST_ANEW = 48
"""Operations, counted once for each use, that are cheaper to repeat than to hold in registers."""


def _left_of(count: int, op: Op) -> int:
    """What is left of ``count`` when each operation that ``op`` is written with is taken off; negative if there are more."""
    count -= 1
    for operand in op.operands:
        if count < 0:
            break
        count = _left_of(count, operand)
    return count


def _as_scanned(op: Result) -> bool:
    """Whether a result of a scan or sort has the dims of what is scanned or sorted."""
    return dims_of(op) == dims_of(op.source.xs[0])  # type: ignore[attr-defined]


def _of_coordinates(op: Op) -> bool:
    return all(t.tile_type(x).dtype in ("i32", "i64", "bool") for x in (op, *op.operands))


def _capitals(axes: tuple[str, str]) -> str:
    return "".join(identifier(a[:1].upper() + a[1:]) for a in axes if a)


class Layouts:
    """The place of every tile of ``kernel``; ``layouts`` lists the distinct layouts in order of appearance."""

    def __init__(self, kernel: t.Kernel, skip: Callable[[Op], bool] = lambda op: False, apart: Container[str] = ()) -> None:
        """``skip`` says which values are never in registers, ``apart`` the operand dtypes whose products accumulate in an order
        that no other dtype's have."""
        self.kernel = kernel
        self.apart = apart
        self.parent: dict[Op, Op] = {}
        self.values = [op for op in tiles_of(kernel.body) if dims_of(op) and not floating(op) and not skip(op)]
        self._join()
        self.layouts: list[Layout] = []
        self.of_group: dict[Op, Place] = {}
        self._tiles()
        self._vectors()
        self._name()

    def place(self, op: Op) -> Place | None:
        """Where ``op`` lives; ``None`` for scalars and for what has no layout of its own."""
        return self.of_group.get(self._find(op)) if op in self.parent else None

    # ---- groups

    def _find(self, op: Op) -> Op:
        while self.parent[op] is not op:
            self.parent[op] = self.parent[self.parent[op]]
            op = self.parent[op]
        return op

    def _union(self, *ops: Op) -> None:
        known = [self._find(op) for op in ops if op in self.parent]
        for other in known[1:]:
            self.parent[self._find(other)] = self._find(known[0])

    def _join(self) -> None:
        self.parent = {op: op for op in self.values}
        casts = [op for op in tiles_of(self.kernel.body) if isinstance(op, t.Cast) and self._between_orders(op)]
        for op in tiles_of(self.kernel.body):
            if op in casts:
                continue
            if isinstance(op, ELEMENTWISE):
                self._union(op, *(x for x in op.operands if dims_of(x)))
            elif isinstance(op, t.Broadcast) and dims_of(op.x) == dims_of(op):
                self._union(op, op.x)
            elif isinstance(op, t.Load):
                self._union(op, *(g for g in op.gathers if dims_of(g) == dims_of(op)))
            elif isinstance(op, t.Dot):
                self._union(op, op.acc)
            elif isinstance(op, t.For):
                for init, arg, value in zip(op.init, op.body.args, yielded(op.body), strict=True):
                    self._union(arg, init, value)
            elif isinstance(op, Result) and isinstance(op.source, t.For):
                self._union(op.source.body.args[op.index], op)
            elif isinstance(op, Result) and isinstance(op.source, t.Scan):
                self._union((op.source.x, op.source.carry)[op.index], op)
            elif isinstance(op, t.ScanBy | t.SortBy):
                self._union(*op.xs)
            elif isinstance(op, Result) and isinstance(op.source, t.ScanBy | t.SortBy) and _as_scanned(op):
                self._union(*op.source.xs, op)
        for op in casts:
            here, there = (self._orders(x) for x in (op, op.x))
            if here == there or not here or not there:
                self._union(op, op.x)

    def _between_orders(self, op: t.Cast) -> bool:
        """Whether what is cast may come from a product of another order than what it becomes."""
        return any(t.tile_type(x).dtype in self.apart for x in (op, op.x)) and op in self.parent and op.x in self.parent

    def _orders(self, op: Op) -> set[str]:
        """The orders in which products accumulate into the group of ``op``: a dtype that is apart, or "" for all others."""
        dtypes = [t.tile_type(d.lhs).dtype for d in self._products() if self._find(d) is self._find(op)]
        return {x if x in self.apart else "" for x in dtypes}

    def _products(self) -> Iterator[t.Dot]:
        return (op for op in self.values if isinstance(op, t.Dot) and len(dims_of(op)) == 2)

    # ---- layouts

    def _layout(self, kind: str, dims: t.Dims, element: str = "") -> Layout:
        (row, rows), (col, cols) = dims if len(dims) == 2 else (("", 1), *dims)
        for have in self.layouts:
            if (have.kind, have.axes, have.element) == (kind, (row, col), element):
                return have
        self.layouts.append(Layout(f"L{len(self.layouts)}", kind, rows, cols, (row, col), element))
        return self.layouts[-1]

    def _tiles(self) -> None:
        dots: dict[Op, str] = {}
        for op in self._products():
            root, dtype = self._find(op), t.tile_type(op.lhs).dtype
            dots[root] = min(dots.get(root, dtype), dtype, key=lambda x: DTYPES[x].bytes)
        for op in self.values:
            root = self._find(op)
            if len(dims_of(op)) == 2 and root not in self.of_group:
                kind = "accumulator" if root in dots else "rows"
                self.of_group[root] = Place(self._layout(kind, dims_of(op), dots.get(root, "")))

    def _vectors(self) -> None:
        wishes: dict[Op, list[Place | None]] = {}  # None: a layout of its own, which a scalar reduction needs
        later: dict[Op, list[Place | None]] = {}
        for op in self.values_and_reductions():
            if isinstance(op, t.Reduce | t.Scan) and len(dims_of(op.x)) == 1 and op.x in self.parent:
                wishes.setdefault(self._find(op.x), []).insert(0, None)
            elif isinstance(op, t.ScanBy | t.SortBy) and len(dims_of(op.xs[0])) == 1:
                for x in op.xs:
                    if x in self.parent:
                        wishes.setdefault(self._find(x), []).insert(0, None)
            elif isinstance(op, Result) and isinstance(op.source, t.ScanBy):
                tile = next(filter(None, map(self.place, op.source.xs)), None)
                if op.index >= len(op.source.xs) and dims_of(op) and tile is not None:
                    wishes.setdefault(self._find(op), []).append(tile.vector(dims_of(op)[0][0]))
            elif isinstance(op, Result) and isinstance(op.source, t.Scan):
                tile = self.place(op.source.x)
                if op.index == 1 and dims_of(op) and tile is not None:
                    wishes.setdefault(self._find(op), []).append(tile.vector(dims_of(op)[0][0]))
            elif isinstance(op, t.Reduce) and len(dims_of(op.x)) == 2 and (tile := self.place(op.x)):
                wishes.setdefault(self._find(op), []).append(tile.vector(dims_of(op)[0][0]))
            elif isinstance(op, t.Broadcast) and len(dims_of(op.x)) == 1 and len(dims_of(op)) == 2 and op.x in self.parent:
                tile = self.place(op)
                if tile is not None:
                    later.setdefault(self._find(op.x), []).append(tile.vector(dims_of(op.x)[0][0]))
            elif isinstance(op, t.Load) and len(dims_of(op)) == 2 and (tile := self.place(op)):
                for g in op.gathers:
                    if len(dims_of(g)) == 1 and g in self.parent:
                        later.setdefault(self._find(g), []).append(tile.vector(dims_of(g)[0][0]))
        for op in self.values:
            root = self._find(op)
            if len(dims_of(op)) == 1 and root not in self.of_group:
                wish = next(iter([*wishes.get(root, ()), *later.get(root, ())]), None)
                self.of_group[root] = wish or Place(self._layout("rows", dims_of(op)))

    def values_and_reductions(self) -> Iterator[Op]:
        for op in tiles_of(self.kernel.body):
            joins = isinstance(op, t.Reduce | t.Broadcast | t.Scan | t.ScanBy | t.SortBy | Result)
            if joins or (isinstance(op, t.Load) and op.gathers):
                yield op

    def _name(self) -> None:
        """``Tile`` and ``Acc`` where there is one of a kind, else with their axes: ``AccMN``, ``AccMD``."""
        names: dict[Layout, str] = {}
        taken = {a.name for a in self.kernel.args} | set(self.kernel.sizes)
        for layout in self.layouts:
            word = "Acc" if layout.kind == "accumulator" else "Tile"
            alone = sum(x.kind == layout.kind for x in self.layouts) == 1
            name = word if alone else word + _capitals(layout.axes)
            while name in names.values() or name in taken:
                name += "_"
            names[layout] = name
        renamed = {old: Layout(name, old.kind, old.rows, old.cols, old.axes, old.element) for old, name in names.items()}
        self.layouts = list(renamed.values())
        self.of_group = {op: Place(renamed[p.layout], p.side) for op, p in self.of_group.items()}

    def ask(self, dims: t.Dims) -> Layout:
        """A ``rows`` layout for ``dims``, for a value that has none of its own."""
        for have in self.layouts:
            row, col = dims if len(dims) == 2 else (("", 1), *dims)
            if have.kind == "rows" and have.axes == (row[0], col[0]):
                return have
        (row, rows), (col, cols) = dims if len(dims) == 2 else (("", 1), *dims)
        name = "Tile" + _capitals((row, col))
        self.layouts.append(Layout(name, "rows", rows, cols, (row, col)))
        return self.layouts[-1]
