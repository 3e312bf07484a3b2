"""Loops for a compiler that vectorises by itself: the contiguous axis is walked innermost.

A vector that is written out can hold the sums of neighbouring columns while it walks down the rows.  A compiler vectorises
innermost loops only, so here the rows are walked outside, and such a reduction goes into an array, an element per column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portakern.emit.running import Running
from portakern.ir.tile import Const, For, Kernel, Reduce, identity, tile_type

from .arrays import LocalArrays
from .elements import ELEMENTWISE, Bound, hint_of, source, unbound
from .plan import Item, Join, KernelLoopPlan, LocalStore, Node
from .planner import LoopPlanner


def plan_with_array_sums(kernel: Kernel, held: Mapping[str, str]) -> KernelLoopPlan:
    """The plan of ``kernel`` in single elements; ``held`` as for :func:`planner.plan_kernel_loops`."""
    return ArraySums(kernel, LocalArrays(1, 1, held), rows=1).plan()


class ArraySums(LoopPlanner):
    """Takes the contiguous axis last wherever a reduction runs along another one."""

    def candidates(self, items: Sequence[Item], free: Sequence[str], bound: Bound) -> list[str]:
        found = super().candidates(items, free, bound)
        inner = self.vectors.contiguous(items, bound)
        past = [i for item in items for i in _within(item) if inner in self.items.involved(i) and self._passes(i, inner, bound)]
        # Running values have a variable, not an array, so that the axis they run along stays inside.
        waits = bool(past) and not any(isinstance(i, Running) for i in past)
        return [a for a in found if not (waits and a == inner)]

    def _passes(self, item: Item, inner: str | None, bound: Bound) -> bool:
        """Whether ``item`` joins what lies apart along another axis than the contiguous one."""
        if isinstance(item, For):
            return self.vectors.contiguous(item.body.ops, bound) == inner
        return isinstance(item, Reduce | Running) and item.axis != inner

    def waits(self, items: Sequence[Item], axis: str) -> dict[Item, int]:
        """A value beside the loops over ``axis`` is computed where it is read first, and a carried tile overwritten last: so
        few arrays take values past a loop."""
        level = super().waits(items, axis)
        last = max(level.values())
        for item in reversed(items):
            if isinstance(item, LocalStore) and item.carried:
                level[item] = last
            elif isinstance(item, ELEMENTWISE) and axis not in self.items.involved(item):
                read = [level[i] for i in items if item in self.items.operands(i)]
                level[item] = max(level[item], min(read, default=0))
        return level

    def reducible(self, items: Sequence[Item], axis: str, bound: Bound) -> bool:
        along = [i for i in items if isinstance(i, Reduce | Running) and i.axis == axis]
        return bool(along) and not any(isinstance(i, Running) and unbound(i, bound | {axis}) for i in along)

    def reducing(self, items: Sequence[Item], bound: Bound, wide: bool, axis: str) -> list[Node]:
        begun: list[Item] = []
        inside: list[Item] = []
        for item in items:
            if isinstance(item, Reduce) and item.axis == axis and unbound(item, bound | {axis}):
                start, item = self._into_array(item, bound)
                begun.append(start)
            inside.append(item)
        before = self.loops(begun, bound, wide) if begun else []
        return [*before, *super().reducing(inside, bound, wide, axis)]

    def _into_array(self, r: Reduce, bound: Bound) -> tuple[LocalStore, Join]:
        """What writes the value a reduction begins with into its array, and what joins one more element to it."""
        of = tile_type(r)
        if r not in self.arrays.of:
            self.arrays.of[r] = self.arrays.inside(hint_of(r), of, bound, "a reduction along an outer loop")
        self.arrays.written.add(r)
        x = source(r.x)
        self.crossing.wanted.add(x)
        start = LocalStore(Const(identity(r.fn, of.dtype), of.dtype), self.arrays.of[r])
        return start, Join(x, self.arrays.of[r], fn=r.fn, dtype=of.dtype)


def _within(item: Item) -> list[Item]:
    return [item, *item.body.walk()] if isinstance(item, For) else [item]
