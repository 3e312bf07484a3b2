"""The axes of a kernel as its Triton text names them: extents, tiles, coordinates.

Tiles become ranges ``m``, ``n`` of coordinates. Static extents and tiles are ``tl.constexpr`` parameters named after their
axis (``M``, ``BLOCK_M``), open dims 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from portakern.emit.python_like import Expr, PythonNames, PythonWriter, infix, named_values, size_expr
from portakern.ir.core import Block, Op
from portakern.ir.size import Size
from portakern.ir.tile import Axis, BufferType, Coord, Dims, For, Kernel, Load, Mask, Start, Store, buffer_type

from ..prepare.descriptors import described_blocks
from . import operations
from .ahead import guard

RESERVED = ("tl", "triton", "torch", "range", "float", "min", "max", "pid", *operations.HELPERS)
NARROW = 2**31 - 2**20
"""Extents up to here leave room for the last tile in a 32-bit coordinate."""


@dataclass
class TritonAxisNames:
    """What the printer decided for one axis."""

    axis: Axis
    start: str = ""  # name of the first coordinate of the tile
    name: str = ""  # name of the coordinates
    wide: bool = False  # 64-bit coordinates


@dataclass
class TritonAxisText:
    """What every part of the printer needs: the kernel, the text so far, and the names of its arguments and axes."""

    kernel: Kernel
    out: PythonWriter = field(default_factory=PythonWriter)
    constants: dict[str, int] = field(default_factory=dict)
    host: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kernel = self.kernel
        self.names = PythonNames(RESERVED)
        self.sizes = {s: self.names.fresh(s) for s in kernel.sizes}
        self.blocks = described_blocks(kernel)
        self.names.taken |= {a.name for a in kernel.args if a.name.endswith("_desc")}  # the host's names of descriptors
        accesses = [op for op in kernel.body.walk() if isinstance(op, Load | Store)]
        pointed = {op.buffer for op in accesses if op not in self.blocks}
        described = {b.buffer: b for b in self.blocks.values()}
        self.descriptors = {a: (self.names.fresh(f"{a.name}_desc"), b) for a, b in described.items()}
        self.parameter = {a: self.names.fresh(f"{a.name}_ptr" if isinstance(a.type, BufferType) else a.name)
                          for a in kernel.args if a in pointed or a not in self.descriptors}  # fmt: skip
        self.function = self.names.fresh(f"{kernel.name}_kernel")
        self.named = named_values(kernel.body) | {op for op in kernel.body.walk() if guard(op) is not None}
        self.users: dict[Op, list[Op]] = {}
        for op in kernel.body.walk():
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
        wide = self._wide_axes()
        self.axes = {a.name: TritonAxisNames(a, wide=a.name in wide) for a in kernel.axes}
        self.extents = {a.name: self.names.fresh(a.name.upper()) for a in kernel.axes if isinstance(a.extent, int)}
        self.tiles = {a.name: self.names.fresh(f"BLOCK_{a.name.upper()}") for a in kernel.axes}
        self.starts = {op.axis for op in kernel.body.walk() if isinstance(op, Start)}
        for a in self.axes.values():
            a.name = self.names.fresh(a.axis.name)
        for a in self.axes.values():
            a.start = a.name if a.axis.tile == 1 else self.names.fresh(f"{a.name}0")
        self.starts |= {a for b in self.blocks.values() for a in b.axes if a}
        self.spread = self._spread_axes(kernel.body)
        self.last_first = {a.name for a in kernel.grid if kernel.family == "attention" and self._ends_with(a)}

    def _wide_axes(self) -> set[str]:
        """Axes whose coordinates need 64 bits: longer than 32 bits can say, or stepping through a large buffer."""
        wide = {a.name for a in self.kernel.axes if not isinstance(a.extent, int) or a.extent > NARROW}
        for op in self.kernel.body.walk():
            if isinstance(op, Load | Store) and op not in self.blocks and buffer_type(op.buffer).wide:
                t = buffer_type(op.buffer)
                for index, stride in zip(op.indices, t.element_strides, strict=True):
                    wide |= {a for a in index.axes if stride != 1}
        return wide

    def _ends_with(self, axis: Axis) -> bool:
        """Whether later blocks along a grid axis walk farther."""
        ends = [op.hi for op in self.kernel.body.walk() if isinstance(op, For) and op.hi is not None]
        return any(isinstance(op, Start) and op.axis == axis.name for end in ends for op in _within(end))

    def _spread_axes(self, block: Block) -> set[str]:
        """Axes whose coordinates are written out one by one: those of pointers, masks and of the coordinates as values."""
        found: set[str] = set()
        for op in block.walk():
            if isinstance(op, Load | Store) and op not in self.blocks:
                found |= {a for i in op.indices for a in i.axes}
            elif isinstance(op, Coord | Mask):
                found.add(op.axis)
        return found

    def _grid_axes(self) -> list[TritonAxisNames]:
        """Grid axes with more than one block; the others are at block 0."""
        return [self.axes[a.name] for a in self.kernel.grid if a.steps != 1]

    def _pid_is_wide(self) -> bool:
        """Whether block numbers need 64 bits: there are as many, or they are coordinates that step through a large buffer."""
        grid = self._grid_axes()
        return any(not isinstance(a.axis.steps, int) or a.axis.steps > NARROW or (a.wide and a.axis.tile == 1) for a in grid)

    def _coordinates(self, a: TritonAxisNames, block: str = "") -> None:
        """Print the coordinates of an axis of the grid (from its block number) or of a whole axis."""
        axis, name = a.axis, a.name
        if axis.tile == 1:
            if block in ("", "0"):
                a.start = a.name = "0"
            elif block != name:
                self.out.line(f"{name} = {block}")
            return
        reach = f"tl.arange(0, {self._tile(axis)})"
        spread = axis.name in self.spread
        if block in ("", "0"):
            a.start = "0"
            if spread:
                self.out.line(f"{name} = {reach}{'.to(tl.int64)' if a.wide else ''}")
            return
        wide = a.wide and ".to(tl.int64)" not in block and not self._pid_is_wide()
        start = f"{block}{'.to(tl.int64)' if wide else ''} * {self._tile(axis)}"
        if axis.name in self.starts:
            self.out.line(f"{a.start} = {start}")
            start = a.start
        if spread:
            self.out.line(f"{name} = {start} + {reach}")

    def _tile(self, axis: Axis) -> str:
        name = self.tiles[axis.name]
        self.constants[name] = axis.tile
        return name

    def _extent(self, axis: Axis) -> Expr:
        if isinstance(axis.extent, int):
            name = self.extents[axis.name]
            self.constants[name] = axis.extent
            return Expr(name)
        return size_expr(axis.extent, self.sizes)

    def _steps(self, axis: Axis, host: bool = False) -> str:
        if axis.tile == 1:
            return self._extent_text(axis, host).at(12)
        tile = str(axis.tile) if host else self._tile(axis)
        return f"{'triton' if host else 'tl'}.cdiv({self._extent_text(axis, host)}, {tile})"

    def _extent_text(self, axis: Axis, host: bool) -> Expr:
        return size_expr(axis.extent, self.host) if host else self._extent(axis)

    def _along(self, expr: Expr, axis: str, dims: Dims) -> Expr:
        """A one-dim expression over ``axis`` as a dim of a tile."""
        if len(dims) <= 1:
            return expr
        picks = ", ".join(":" if a == axis else "None" for a, _ in dims)
        return Expr(f"{expr.at(14)}[{picks}]")

    def _inside(self, a: TritonAxisNames) -> Expr:
        """The mask of coordinates within the extent of an axis."""
        return infix("<", Expr(a.name), self._extent(a.axis))

    def _size(self, size: Size) -> Expr:
        """The name of the only axis of this extent; of several it is not known which is meant, so a number says it."""
        alike = [a for a in self.kernel.axes if isinstance(size, int) and size > 1 and a.extent == size]
        return self._extent(alike[0]) if len(alike) == 1 else size_expr(size, self.sizes)


def _within(op: Op) -> Iterator[Op]:
    """A value and everything it is computed from."""
    yield op
    for operand in op.operands:
        yield from _within(operand)
