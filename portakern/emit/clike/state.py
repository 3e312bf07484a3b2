"""What building a plan keeps track of: parameters, variables and where each value is held."""

from __future__ import annotations

from dataclasses import replace

from portakern.emit.clike import plan as p
from portakern.emit.clike.dialect import Dialect
from portakern.emit.clike.layouts import Layouts, Place, floating
from portakern.emit.clike.memory import Addresses
from portakern.emit.clike.names import CNames, size_name
from portakern.emit.clike.operands import Operands
from portakern.emit.clike.regions import ElementwiseRegions
from portakern.emit.clike.terms import Name, PlanTerm
from portakern.ir import tile as t
from portakern.ir.core import Block, Op


class State:
    """The planner's state for one kernel, and the questions that every part of it asks."""

    def __init__(self, kernel: t.Kernel, dialect: Dialect) -> None:
        kernel = _reordered(kernel)
        self.kernel = kernel
        self.dialect = dialect
        self.loads = Operands(kernel, dialect.takes_pixels)
        self.staged = self.loads.staged
        self.layouts = Layouts(kernel, lambda op: op in self.loads.lists or self.loads.only_operand(op), dialect.apart)
        self.regions = ElementwiseRegions(kernel, self.layouts)
        self.names = CNames({x.name for x in self.layouts.layouts} | {size_name(s) for s in kernel.sizes})
        self.inner: set[str] = set()  # names inside maps
        self.params = self._parameters()
        self.pointers = {x.name for x in self.params if x.role == "array"}
        self.addresses = Addresses(kernel)
        self.variable: dict[Op, str] = {q: name.name for q, name in zip(kernel.args, self.params, strict=False)}
        self.hints: dict[Op, str] = {}
        self.into: dict[Op, Op] = {}  # value -> carried argument whose variable it takes
        self.mutable: set[Op] = set()
        self.shared: list[p.Shared] = []
        self.of_array: dict[p.Shared, Op] = {}  # what a shared operand is a copy of
        self.spare: dict[tuple[Op, p.Shared], list[p.Shared]] = {}  # of loops that are over, by array and form without a name
        self.operands: dict[tuple[Op, str, bool], p.Operand] = {}
        self.stored: list[set[tuple[Op, str, bool]]] = [set()]  # operands from registers, by block: a loop may have no step
        self.converted: list[dict[tuple[Op, Place], str]] = [{}]
        self.out: list[list[p.Statement]] = [[]]
        self.loops: list[t.For] = []
        self.results: dict[tuple[Op, int], str] = {}  # what loops hand out
        self.alone = False  # whether each thread walks the loops that are being planned by itself

    @property
    def warps(self) -> int:
        return self.kernel.schedule.warps

    @property
    def threads(self) -> int:
        return self.warps * self.dialect.subgroup

    def _parameters(self) -> list[p.KernelParam]:
        found: list[p.KernelParam] = []
        for arg in self.kernel.args:
            scalar = isinstance(arg.type, t.TileType)
            dtype = arg.type.dtype  # type: ignore[attr-defined]
            found.append(p.KernelParam(self.names.fresh(arg.name, arg.name + "_"), dtype, "scalar" if scalar else "array",
                                 arg in self.kernel.written, arg.name))
        return [*found, *(p.KernelParam(size_name(s), "i64", "size", source=s) for s in self.kernel.sizes)]

    def add(self, statement: p.Statement) -> None:
        self.out[-1].append(statement)

    def name(self, op: Op, *wishes: str) -> tuple[str, bool]:
        """The variable of ``op`` and whether it must be declared."""
        if op in self.into:
            self.variable[op] = self.variable[self.into[op]]
            return self.variable[op], False
        hint = self.hints.get(op)
        self.variable[op] = self.names.fresh(*([hint] if hint else []), *wishes)
        return self.variable[op], True

    def value(self, op: Op, place: Place | None) -> PlanTerm:
        """``op`` at ``place``: a scalar that is computed anew at each use, else the variable that holds it."""
        return self.scalar(op) if floating(op) and place is None else Name(self.held(op, place))

    def held(self, op: Op, place: Place | None) -> str:
        """The variable that holds ``op`` at ``place``, made now where it is not held yet."""
        return self.spread(op, place) if floating(op) and place is not None else self.at(op, place)

    def at(self, op: Op, place: Place | None) -> str:
        have = self.layouts.place(op)
        if have == place or have is None or place is None or self._same(have, place):
            return self.variable[op]
        for scope in self.converted:
            if (op, place) in scope:
                return scope[op, place]
        name = self.names.fresh(f"{self.variable[op]}_{place.layout.name.lower()}")
        self.add(p.Relayout(name, t.tile_type(op).dtype, place, "relayout", Name(self.variable[op])))
        self.converted[-1][op, place] = name
        return name

    def _same(self, a: Place, b: Place) -> bool:
        return self.dialect.plain_vectors and a.side == b.side != "tile" and a.size == b.size

    def _any_place(self, dims: t.Dims) -> Place:
        layout = self.layouts.ask(dims)
        self.names.taken.add(layout.name)
        return Place(layout)

    # ---- what the parts below define for each other

    def block(self, block: Block) -> None:
        """Plan the operations of ``block`` in order."""
        raise NotImplementedError

    def spread(self, op: Op, place: Place, name: str = "", define: bool = True) -> str:
        """A tile of what is computed anew at each use: a constant everywhere, or coordinates."""
        raise NotImplementedError

    def scalar(self, op: Op) -> PlanTerm:
        """The expression of a scalar that is computed anew at each use."""
        raise NotImplementedError


def _reordered(kernel: t.Kernel) -> t.Kernel:
    """``kernel`` with its buffers before its scalars, the order of parameters in every language."""
    if [isinstance(a.type, t.TileType) for a in kernel.args] == sorted(isinstance(a.type, t.TileType) for a in kernel.args):
        return kernel
    args = sorted(kernel.args, key=lambda a: isinstance(a.type, t.TileType))
    return replace(kernel, body=Block(tuple(args), kernel.body.ops))
