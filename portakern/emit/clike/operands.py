"""Operands of matrix products that are copied from memory to shared memory without passing through registers.

Rows of an operand may be picked where the copy can read, for each row, which one: the integers are those of an array, and
nobody else asks for them.
"""

from __future__ import annotations

from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.emit.clike.memory import pixels
from portakern.ir import tile as t
from portakern.ir.core import Op


class Operands:
    """``staged`` holds the loads that only matrix products read, looking through what the copy does anyway; ``lists`` the
    loads of what copies pick rows by.  ``picks``: copies can do that, and take the coordinate of a row apart or leave out what
    lies outside of its array."""

    def __init__(self, kernel: t.Kernel, picks: bool) -> None:
        self.kernel = kernel
        self.uses: dict[Op, list[Op]] = {}
        for op in tiles_of(kernel.body):
            for operand in op.operands:
                self.uses.setdefault(operand, []).append(op)
        self.staged: dict[t.Load, None] = {}
        for op in tiles_of(kernel.body):
            if isinstance(op, t.Load) and len(dims_of(op)) == 2 and op.pad in (None, 0.0):
                users = self.readers(op)
                taken = all(self._lists(g, op) for g in op.gathers) if picks else not (op.gathers or pixels(kernel, op))
                if taken and users and all(isinstance(u, t.Dot) and u.acc is not op for u in users):
                    self.staged[op] = None
        picked = {g for op in tiles_of(kernel.body) if isinstance(op, t.Load) and op not in self.staged for g in op.gathers}
        self.lists = {g for op in self.staged for g in op.gathers} - picked

    def _lists(self, op: Op, picked: t.Load) -> bool:
        """Whether ``op`` is an integer of an array for each row of ``picked``, of which only loads read it."""
        if not isinstance(op, t.Load) or op.gathers or dims_of(op) != dims_of(picked)[:1]:
            return False
        ((axis, _),) = dims_of(op)
        along = [x for d in t.joined_dims(op) for x in d.index.terms if x.axis == axis]
        return len(along) == 1 and all(isinstance(u, t.Load) for u in self.uses[op])

    def readers(self, op: Op) -> list[Op]:
        """Who uses ``op``, looking through transparent operations."""
        found: list[Op] = []
        for user in self.uses.get(op, ()):
            found.extend(self.readers(user) if self.transparent(user) else [user])
        return found

    def transparent(self, op: Op) -> bool:
        """Permutations of a loaded tile (operands may be stored either way), zeros outside its buffer (copies write them)."""
        if isinstance(op, t.Permute):
            return self.source(op.x) is not None
        if isinstance(op, t.Mask) and op.value == 0:
            load = self.source(op.x)
            if load is None:
                return False
            if load.gathers or pixels(self.kernel, load):  # nothing is picked beyond the end of an axis
                return op.axis in t.tile_type(load).axes
            sizes = zip(load.indices, t.buffer_type(load.buffer).shape, strict=True)
            return any(i.plain == op.axis and self.kernel.axis[op.axis].extent == n for i, n in sizes)
        return False

    def source(self, op: Op) -> t.Load | None:
        """The load whose elements ``op`` hands on."""
        while isinstance(op, t.Permute | t.Mask):
            if not self.transparent(op):
                return None
            op = op.x
        return op if isinstance(op, t.Load) else None

    def only_operand(self, op: Op) -> bool:
        """Whether ``op`` exists in shared memory only."""
        source = self.source(op)
        return source is not None and source in self.staged
