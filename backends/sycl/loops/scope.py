"""The text of a kernel so far, and what is in scope where it goes on: names of values, of arrays, of coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from portakern.emit.loops.elements import axes_of
from portakern.emit.loops.plan import KernelLoopPlan, SortedArrays, Storage
from portakern.ir.core import Op
from portakern.ir.tile import BufferType

from .access import size_text
from .expressions import TypedExpr
from .spelling import own, reserved
from .words import Words


class CLoopScope:
    """``names`` holds what every value in scope is called (or its expression); ``vector`` is the axis that is walked by whole
    vectors here, ``left`` how many lanes are left where one may be cut short."""

    def __init__(self, plan: KernelLoopPlan, words: Words) -> None:
        self.plan, self.kernel, self.words = plan, plan.kernel, words
        self.lines: list[str] = []
        self.depth = 1
        self.storage = dict(plan.stored)
        self.orders: dict[SortedArrays, tuple[str, str]] = {}  # the arrays of the order of each sort
        self.names: dict[Op, TypedExpr] = {}
        self.taken: set[str] = {own(s) for s in self.kernel.sizes}
        self.vector: tuple[str, int] | None = None
        self.left: str | None = None
        wide = self.kernel.sizes or any(isinstance(a.type, BufferType) and a.type.wide for a in self.kernel.args)
        self.index = words.held("i64" if wide else "i32")
        self.buffers: dict[Op, str] = {a: self.fresh(a.name) for a in self.kernel.args}
        self.arrays: dict[Storage, str] = {s: self.fresh(s.name) for s in plan.storages}
        self.coords = {a.name: self.fresh(a.name) for a in self.kernel.axes}
        self.firsts = {a.name: self.fresh(f"{a.name}0") for a in self.kernel.axes}
        self.ends = {a.name: self.fresh(f"{a.name}1") for a in self.kernel.axes}
        self.overwritten: set[str] = set()  # arrays that this block writes: what it read of them gets a name

    def fresh(self, hint: str) -> str:
        base = hint if hint.isidentifier() and not reserved(hint) else f"{hint}_"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line if line else "")

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """A block; names given inside are free again after it."""
        self.say(head + " {")
        self.depth += 1
        names, taken = dict(self.names), set(self.taken)
        yield
        self.names, self.taken = names, taken
        self.depth -= 1
        self.say("}")

    def lanes_of(self, op: Op) -> int:
        return self.vector[1] if self.vector and self.vector[0] in axes_of(op) else 1

    def coordinate(self, axis: str) -> str:
        return self.coords[axis]

    def sized(self, size: object) -> str:
        text = size_text(size)  # type: ignore[arg-type]
        return f"{text}L" if self.index != self.words.held("i32") and text.isdigit() else text
