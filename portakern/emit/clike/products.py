"""Matrix products: where their operands are kept, and when they are copied there."""

from __future__ import annotations

from dataclasses import replace

from portakern.emit.clike import plan as p
from portakern.emit.clike.alone import Alone
from portakern.emit.clike.layouts import Place, dims_of, floating
from portakern.emit.clike.memory import of_planes, taps_reaching_out
from portakern.emit.clike.naming import base
from portakern.emit.clike.terms import Name
from portakern.ir import tile as t
from portakern.ir.core import Arg, Op

MOST_TAPS = 30
"""Taps along all dims together that are bits of a word (see ``stage`` of pk/pixels.cuh)."""


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
        a = self._operand(left, "A", (row, op.axis))
        b = self._operand(right, "B", (op.axis, col))
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
            self.add(p.Relayout(name, t.tile_type(op).dtype, place, "copy", Name(self.variable[acc]), define))
        return name

    def _operand(self, op: Op, role: str, order: tuple[str, str]) -> p.Operand:
        load = self.loads.source(op)
        if load is not None and load in self.staged:
            transposed = t.tile_type(load).axes != order
            return replace(self.operands[self._key(load, role, transposed)], transposed=transposed)
        if not floating(op) and isinstance(op, t.Permute) and self.layouts.place(op.x) is not None:
            op = op.x  # either order will do
        dims = dims_of(op)
        transposed = tuple(axis for axis, _ in dims) != order
        place = self.layouts.place(op) or self._any_place(dims)
        taken = self.dialect.register_dtypes is None or t.tile_type(op).dtype in self.dialect.register_dtypes
        if taken and not transposed and (role, place.layout.kind) in self.dialect.register_operands:
            return p.Operand(self.held(op, place))
        key = self._key(op, role, transposed)
        if not any(key in scope for scope in self.stored):
            self.stored[-1].add(key)
            value = self.value(op, place)
            if key not in self.operands:
                self.operands[key] = p.Operand(self._share(op, dims, role, transposed, 1, "computed in registers"))
            shared = self.operands[key].shared
            assert shared is not None
            self.add(p.StoreToShared(shared, value))
        return replace(self.operands[key], transposed=transposed)

    def _key(self, op: Op, role: str, transposed: bool) -> tuple[Op, str, bool]:
        return (op, role, transposed) if self.dialect.role_matters else (op, "", False)

    def _share(self, op: Op, dims: t.Dims, role: str, transposed: bool, slots: int, why: str) -> p.Shared:
        form = p.Shared("", t.tile_type(op).dtype, dims[0][1], dims[1][1], slots, role, transposed, why)
        array = op.buffer if isinstance(op, t.Load) else op
        spare = self.spare.get((array, form))
        if spare:
            return spare.pop(0)
        stem = self.variable[array] if isinstance(op, t.Load) else base(op, self.variable)
        shared = replace(form, name=self.names.fresh(self.dialect.operand.format(base=stem)))
        self.shared.append(shared)
        self.of_array[shared] = array
        return shared

    def _stages(self, loads: list[Op], slots: int, slot: str, axis: str) -> list[p.CopyToShared]:
        """The copies of ``loads`` to shared memory, once for each way in which they are read; to where a loop before has copied
        the same array, if there was one."""
        found: list[p.CopyToShared] = []
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
                    shared = self._share(load, dims_of(load), role, transposed, slots, "copied from memory")
                    self.operands[key] = p.Operand(shared, slot)
                    picks = self.addresses.listed(load, self.variable), self.addresses.pixels(load, dims_of(load)[0][0])
                    planes = dims_of(load)[0][0] == dot.axis and of_planes(self.kernel, load)
                    planes = planes and taps_reaching_out(self.kernel, load, dot.axis) <= MOST_TAPS
                    found.append(p.CopyToShared(shared, slot, access, (*picks[0], *picks[1]), planes))
        return found

    def _stage_now(self, loads: list[Op]) -> None:
        for stage in self._stages(loads, 1, "0", ""):
            self.add(stage)
        self._arrived()

    def _arrived(self) -> None:
        """Copies that were started are waited for at once; the barrier follows from their readers."""
        if self.dialect.synchronised:
            self.add(p.Commit())
            self.add(p.Wait(0))
