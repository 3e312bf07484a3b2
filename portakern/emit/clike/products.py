"""Matrix products: where their operands are kept, and when they are copied there."""

from __future__ import annotations

from dataclasses import replace

from portakern.emit.clike import plan as p
from portakern.emit.clike.alone import Alone
from portakern.emit.clike.layouts import Place, dims_of, floating
from portakern.emit.clike.naming import base
from portakern.ir import tile as t
from portakern.ir.core import Arg, Op


class Products(Alone):
    """Plans matrix products and the copies of their operands."""

    def on_Mask(self, op: t.Mask) -> None:
        if not self.loads.only_operand(op):
            self.region(op)

    def on_Dot(self, op: t.Dot) -> None:
        row, col = (axis for axis, _ in dims_of(op))
        lhs_is_a = row in t.tile_type(op.lhs).axes
        left, right = (op.lhs, op.rhs) if lhs_is_a else (op.rhs, op.lhs)
        place = self.layouts.place(op)
        assert place is not None
        before = len(self.out[-1])
        a = self._operand(left, "A", (row, op.axis))
        b = self._operand(right, "B", (op.axis, col))
        if self.dialect.synchronised and any(isinstance(s, p.Put) for s in self.out[-1][before:]):
            self.add(p.Sync("the operand is complete"))
        acc = self._accumulator(op, place)
        depth = self.kernel.axis[op.axis].tile
        self.add(p.Dot(acc, place, a, b, depth, t.tile_type(op.lhs).dtype, op.precision))

    def _accumulator(self, op: t.Dot, place: Place) -> str:
        """The variable that ``op`` adds into: its accumulator's own where nothing else reads that, else a copy."""
        acc = op.acc
        if floating(acc):
            name, define = self.name(op, f"{base(op.lhs, self.variable)}_{base(op.rhs, self.variable)}")
            return self.spread(acc, place, name, define)
        mine = self.regions.block[op] is self.regions.block.get(acc)
        if mine and self.regions.users(acc) == [op] and (not isinstance(acc, Arg) or self.into.get(op) is acc):
            self.variable[op] = self.variable[acc]
            return self.variable[op]
        name, define = self.name(op, "acc")
        if name != self.variable[acc]:
            self.add(p.Convert(name, t.tile_type(op).dtype, place, "copy", self.variable[acc], define))
        return name

    def _operand(self, op: Op, role: str, order: tuple[str, str]) -> p.Operand:
        load = self.loads.source(op)
        if load is not None and load in self.staged:
            transposed = t.tile_type(load).axes != order
            return self.operands[self._key(load, role, transposed)]
        if not floating(op) and isinstance(op, t.Permute) and self.layouts.place(op.x) is not None:
            op = op.x  # either order will do
        dims = dims_of(op)
        transposed = tuple(axis for axis, _ in dims) != order
        place = self.layouts.place(op) or self._any_place(dims)
        if not transposed and (role, place.layout.kind) in self.dialect.register_operands:
            return p.Operand(self.value(op, place))
        key = self._key(op, role, transposed)
        if key not in self.operands or self.loops:
            value = self.value(op, place)
            if key not in self.operands:
                self.operands[key] = self._share(op, dims, role, transposed, 1, "computed in registers")
            shared = self.operands[key].shared
            assert shared is not None
            if self.loops and self.dialect.synchronised and not self.pipelined:
                self.add(p.Sync("the previous step has read the operand"))
            self.add(p.Put(shared, value))
        return self.operands[key]

    def _key(self, op: Op, role: str, transposed: bool) -> tuple[Op, str, bool]:
        return (op, role, transposed) if self.dialect.role_matters else (op, "", False)

    def _share(self, op: Op, dims: t.Dims, role: str, transposed: bool, slots: int, why: str) -> p.Operand:
        stem = self.variable[op.buffer] if isinstance(op, t.Load) else base(op, self.variable)
        name = self.dialect.operand.format(base=stem)
        shared = p.Shared(name, t.tile_type(op).dtype, dims[0][1], dims[1][1], slots, role, transposed, why)
        if shared in self.spare and isinstance(op, t.Load):
            self.spare.remove(shared)
            return p.Operand(name, shared)
        shared = replace(shared, name=self.names.fresh(name))
        self.shared.append(shared)
        return p.Operand(name, shared)

    def _stages(self, loads: list[Op], slots: int, slot: str, axis: str) -> list[p.Stage]:
        """The copies of ``loads`` to shared memory, once for each way in which they are read; to where a loop before has copied
        the same array, if there was one."""
        found: list[p.Stage] = []
        for load in loads:
            assert isinstance(load, t.Load)
            access = self.addresses.access(load, self.variable[load.buffer], dims_of(load),
                                           frozenset({axis} if slots > 1 else ()))
            for dot in (u for u in self.loads.readers(load) if isinstance(u, t.Dot)):
                row, col = (a for a, _ in dims_of(dot))
                role, order = ("A", (row, dot.axis)) if row in t.tile_type(load).axes else ("B", (dot.axis, col))
                transposed = t.tile_type(load).axes != order
                key = self._key(load, role, transposed)
                if key not in self.operands:
                    operand = self._share(load, dims_of(load), role, transposed, slots, "copied from memory")
                    self.operands[key] = replace(operand, slot=slot)
                    shared = self.operands[key].shared
                    assert shared is not None
                    found.append(p.Stage(shared, slot, access))
                elif not self.dialect.role_matters:  # stored once, read both ways
                    have = self.operands[key]
                    if have.transposed != transposed:
                        load.fail("is read both as it is and transposed")
        return found

    def _stage_now(self, loads: list[Op]) -> None:
        for stage in self._stages(loads, 1, "0", ""):
            self.add(stage)
        if self.dialect.synchronised:
            self.add(p.Commit())
            self.add(p.Wait(0))
            self.add(p.Sync())
