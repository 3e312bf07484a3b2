"""Axes of a kernel in its text: names, tiles, ends, loops over the elements of a block."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.emit.python_like import Expr, PythonNames, PythonWriter, infix, size_expr
from portakern.ir.tile import Axis, Kernel

from . import words

RESERVED = ("np", "math", "njit", "prange", "intrinsic", "ir", "f32", "range", "min", "max", "abs", "block", *words.HELPERS)


@dataclass
class NumbaAxisNames:
    """Names of an axis in the text: coordinate, first of the tile, end of the tile."""

    axis: Axis
    name: str
    start: str = "0"
    end: str = ""


class NumbaAxisText:
    """What all parts of a printer share: the text so far, names, and the axes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.out = PythonWriter(width=116)
        self.names = PythonNames(RESERVED)
        self.function = self.names.fresh(f"{kernel.name}_kernel")
        self.sizes = {s: self.names.fresh(s) for s in kernel.sizes}
        self.parameter = {a: self.names.fresh(a.name) for a in kernel.args}
        self.axes = {a.name: NumbaAxisNames(a, self.names.fresh(self._axis_name(a.name))) for a in kernel.axes}
        self.extent_names = {a.name: self.names.fresh(a.name.upper()) for a in kernel.axes if isinstance(a.extent, int)}
        self.tile_names = {a.name: self.names.fresh(f"BLOCK_{a.name.upper()}") for a in kernel.axes}
        self.constants: dict[str, int] = {}

    def _axis_name(self, name: str) -> str:
        """Axis names win over array names, which must then not be the same."""
        return name if name not in self.names.taken else f"i_{name}"

    def _extent(self, axis: Axis) -> Expr:
        if not isinstance(axis.extent, int):
            return size_expr(axis.extent, self.sizes)
        self.constants[self.extent_names[axis.name]] = axis.extent
        return Expr(self.extent_names[axis.name])

    def _tile(self, axis: Axis) -> str:
        self.constants[self.tile_names[axis.name]] = axis.tile
        return self.tile_names[axis.name]

    def _tile_end(self, a: NumbaAxisNames) -> None:
        a.end = a.end or self.names.fresh(f"{a.name}1")
        if a.axis.ragged:
            self.out.line(f"{a.end} = min({a.start} + {self._tile(a.axis)}, {self._extent(a.axis)})")
        else:
            self.out.line(f"{a.end} = {a.start} + {self._tile(a.axis)}")

    def _blocks(self, axis: Axis) -> Expr:
        extent = self._extent(axis)
        if axis.tile == 1:
            return extent
        tile = self._tile(axis)
        return infix("//", infix("-", infix("+", extent, Expr(tile)), Expr("1")), Expr(tile))

    def _count(self, a: NumbaAxisNames) -> str:
        """How many elements of the tile there are. A bare constant would be a type of its own to numba, and compile
        the callee once more."""
        if a.start != "0":
            return f"{a.end} - {a.start}"
        return f"np.int64({a.end})" if a.end in self.constants else a.end

    def _for(self, axis: str, backwards: bool = False) -> str:
        a = self.axes[axis]
        if backwards:
            return f"for {a.name} in range({a.end} - 1, {a.start} - 1, -1):"
        return f"for {a.name} in range({a.end}):" if a.start == "0" else f"for {a.name} in range({a.start}, {a.end}):"
