"""Walks whose steps get their scores from the step before (:mod:`.ahead`), and choices that only some of their tiles need."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from portakern.emit.python_like import Expr, call, infix
from portakern.ir.core import Block, Op
from portakern.ir.tile import Axis, Broadcast, Compare, Coord, For, Select, Start, tile_type

from .ahead import Turned, guard, never_before_last
from .axes import TritonAxisNames
from .memory import TritonMemoryText
from .values import TileValue


@dataclass
class WalkText(TritonMemoryText):
    """Prints what :class:`.statements.StatementText` has to say of such walks."""

    holding: set[Compare] = field(default_factory=set)  # comparisons known to hold here
    failing: set[Compare] = field(default_factory=set)  # comparisons not to be asked here

    def _guarded(self, op: Op, whole: Compare, condition: Op, yes: Op, no: Op) -> None:
        """A choice that only tiles from some on need: the others skip it, where those of a kind do not all."""
        value = self._tensor(yes)
        if whole in self.holding:
            self.values[op] = value
            return
        name = self.names.fresh(self._hint(op))
        chosen = self._value(Select(condition, yes, no))
        if whole in self.failing:
            self.out.line(f"{name} = {chosen.expr}")
        else:
            self.out.line(f"{name} = {self._spelled_out(value, tile_type(op))}")
            start, middle = self._operands(whole, whole.lhs, whole.rhs)
            with self.out.block(f"if {infix('>=', start.expr, middle.expr)}:"):
                again = call("tl.where", self._get(condition).expr, name, self._get(no).expr)
                self.out.line(f"{name} = {again}")
        self.values[op] = TileValue(Expr(name), tile_type(op).axes)

    def _loop_ahead(self, loop: For, parts: Turned, carry_on: Callable[..., None], read: Collection[Op]) -> None:
        """A walk whose steps get their scores from the step before, and its last step, after which only some values are
        ``read``."""
        a = self.axes[loop.axis]
        tile, (_, hi) = self._tile(a.axis), self._limits(loop, a.axis)
        if not hi.text.isidentifier():
            name = self.names.fresh("end")
            self.out.line(f"{name} = {hi}")
            hi = Expr(name)
        guards = {found[0] for op in parts.before if (found := guard(op)) is not None}
        start, coordinates = a.start, a.name
        later, later_coordinates = self.names.fresh(f"next_{start}"), self.names.fresh(f"next_{coordinates}")

        def scores(at: str) -> None:
            a.start, a.name = at, later_coordinates
            self._again(parts.scores, a)
            a.start, a.name = start, coordinates

        fresh = set(self.names.taken)
        scores("0")
        taken = set(self.names.taken)
        with self.out.block(f"for {start} in range(0, {hi} - {tile}, {tile}):"):
            self._reach_of(a, parts.body.ops)
            self.whole.add(loop.axis)
            self.holding = {x for x in guards if never_before_last(self.kernel, loop, x)}
            self._again(parts.before)
            self.out.comment("The scores of the next tile, before the product of these weights.")
            self.out.line(f"{later} = {start} + {tile}")
            self.names.taken, within = fresh, self.names.taken
            scores(later)
            self.names.taken = within
            self._again(parts.after)
            carry_on()
            self.whole.discard(loop.axis)
        self.names.taken, self.holding, self.failing = taken, set(), guards
        self.out.line(f"{start} = tl.cdiv({hi}, {tile}) * {tile} - {tile}")
        self._reach_of(a, parts.body.ops)
        self._again(parts.before)
        self._again(parts.after)
        carry_on(read)
        self.failing = set()

    def _again(self, ops: Sequence[Op], along: TritonAxisNames | None = None) -> None:
        """Print ``ops``, whose texts so far and those of the coordinates in them are of another place."""
        waiting = [x for op in ops for x in (op, *op.operands) if x is op or isinstance(x, Coord | Start | Broadcast)]
        while waiting:
            self.values.pop(x := waiting.pop(), None)
            waiting += [o for o in x.operands if isinstance(o, Coord | Start | Broadcast)]
        if along is not None:
            self._reach_of(along, ops)
        for op in ops:
            self._statement(op)

    def _reach_of(self, a: TritonAxisNames, ops: Sequence[Op]) -> None:
        """Write the coordinates of a tile where accesses or masks among ``ops`` need each."""
        if a.axis.tile > 1 and a.axis.name in self._spread_axes(Block((), tuple(ops))):
            reach = f"tl.arange(0, {self._tile(a.axis)})"
            self.out.line(f"{a.name} = {reach}" if a.start == "0" else f"{a.name} = {a.start} + {reach}")

    @abstractmethod
    def _statement(self, op: Op) -> None:
        """Print one operation."""

    @abstractmethod
    def _hint(self, op: Op) -> str:
        """What a value is to be called."""

    @abstractmethod
    def _limits(self, loop: For, axis: Axis) -> tuple[str, Expr]:
        """Where a walk starts and ends."""
