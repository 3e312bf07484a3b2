"""Elementwise regions: which operations become one ``map``.

An elementwise operation joins the region of its consumers when all of them are elementwise, stand in the same block, work
on the same place and belong to one region; else it is the *root* of a region of its own, and gets a name.  So a region is a
tree (or a graph) of expressions with one result, computed in one pass over the elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from portakern.emit.clike.layouts import ELEMENTWISE, Layouts, Place, dims_of, floating
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, Yield


def elementwise(op: Op) -> bool:
    """Operations on elements that a region may hold; what floats belongs to every region that uses it."""
    return isinstance(op, (*ELEMENTWISE, t.Broadcast)) and not floating(op)


class ElementwiseRegions:
    """``root[op]`` for every elementwise operation, ``position`` of each in its block and all uses of each value."""

    def __init__(self, kernel: t.Kernel, layouts: Layouts) -> None:
        self.layouts = layouts
        self.block: dict[Op, Block] = {}
        self.uses: dict[Op, list[Op]] = {}
        self.position: dict[Op, int] = {}
        self.root: dict[Op, Op] = {}
        self._uses(kernel.body)
        for block in dict.fromkeys(self.block.values()):
            for op in reversed(block.ops):
                if elementwise(op):
                    self.root[op] = self._join(op)

    def _uses(self, block: Block) -> None:
        for n, op in enumerate(block.ops):
            self.block[op], self.position[op] = block, n
            for operand in op.operands:
                self.uses.setdefault(operand, []).append(op)
            if isinstance(op, t.For):
                for arg in op.body.args:
                    self.block[arg], self.position[arg] = op.body, -1
                self._uses(op.body)

    def users(self, op: Op) -> list[Op]:
        """Who uses ``op``, looking through operations that are computed anew at each use."""
        found: list[Op] = []
        for user in self.uses.get(op, ()):
            found.extend(self.users(user) if floating(user) else [user])
        return found

    def _join(self, op: Op) -> Op:
        roots: set[Op] = set()
        for user in self.uses.get(op, ()):
            same = self._level(user) == self._level(op) or _widened(op)
            if user not in self.root or self.block[user] is not self.block[op] or not same:
                return op
            roots.add(self.root[user])
        return roots.pop() if len(roots) == 1 else op

    def _level(self, op: Op) -> tuple[Place | None, int]:
        return self.layouts.place(op), len(dims_of(op))

    def members(self, root: Op) -> list[Op]:
        return [op for op, r in self.root.items() if r is root]

    def last_use(self, op: Op, block: Block, inside: Mapping[Op, Op]) -> int:
        """The position in ``block`` of the last statement that reads ``op`` (-1: none); ``inside`` maps an operation of a
        nested block to the loop of ``block`` that holds it."""
        last = -1
        for user in self.uses.get(op, ()):
            if floating(user):
                last = max(last, self.last_use(user, block, inside))
                continue
            user = self.root.get(user, user)
            if (isinstance(user, Yield) and self.block[user] is block) or self.block[user] is block:
                last = max(last, self.position[user])
            elif user in inside:
                last = max(last, self.position[inside[user]])
        return last


def _widened(op: Op) -> bool:
    """A loaded vector that only becomes f32: it does so where it is used."""
    return isinstance(op, t.Cast) and isinstance(op.x, t.Load) and len(dims_of(op)) == 1


def nested_in(block: Block) -> dict[Op, Op]:
    """For every operation inside a loop of ``block``, that loop."""
    found: dict[Op, Op] = {}
    for op in block.ops:
        if isinstance(op, t.For):
            for inner in op.body.walk():
                found[inner] = op
    return found


__all__ = ["ElementwiseRegions", "Result", "elementwise", "nested_in"]
