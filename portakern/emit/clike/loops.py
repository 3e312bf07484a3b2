"""Loops: what they carry, their bounds, and operands that travel ahead of their use."""

from __future__ import annotations

from dataclasses import replace

from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Place, floating
from portakern.emit.clike.products import Products
from portakern.emit.clike.regions import nested_in
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, call, divide, multiply, size_term, whole
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op, Result, yielded


class Loops(Products):
    """Plans loops.  A carried value is one variable, which its next value is computed into where nothing else reads it."""

    def _lefts(self, axes: list[str]) -> list[p.Statement]:
        found: list[p.Statement] = []
        for axis in axes:
            if axis in self.addresses.used_left:
                found.append(p.Scalar(self.addresses.left_name[axis], "i32", self.addresses.count_left(axis),
                                      note=f"the last tile along {axis} may reach past the end"))
                self.addresses.used_left.discard(axis)
        return found

    def _take_over(self, block: Block) -> None:
        """Inits of loops that nothing else needs live in the carried variable from the start."""
        for op in block.ops:
            if isinstance(op, t.For):
                for init, arg in zip(op.init, op.body.args, strict=True):
                    if self._own(init, block) and len(self.regions.users(init)) == 1:
                        self.hints[init] = arg.name  # type: ignore[attr-defined]
                        self.mutable.add(init)

    def _own(self, op: Op, block: Block) -> bool:
        return not floating(op) and self.regions.block.get(op) is block and not isinstance(op, Arg | t.Load)

    def on_For(self, op: t.For) -> None:
        axis = self.kernel.axis[op.axis]
        carried = [self._carry(op, i) for i in range(len(op.init))]
        begin, end = self._bounds(op, axis)
        var = self.names.fresh(*([f"{axis.name}0"] if axis.tile > 1 else [axis.name, f"{axis.name}_index"]))
        outer = self.addresses.start[axis.name]
        self.addresses.start[axis.name] = Name(var)
        self.loops.append(op)
        self.out.append([])
        self.converted.append({})
        self.stored.append(set())
        place = None if self.alone else self.walked_alone(op)
        self.alone = self.alone or place is not None
        pipeline = self._copies(op, axis)
        self.block(op.body)
        self._hand_over(op, carried)
        self.converted.pop()
        self.stored.pop()
        body = self.out.pop()
        body = [*self._lefts([axis.name]), *body]
        self.loops.pop()
        self.addresses.start[axis.name] = outer
        note = f"{axis.tile} coordinates along {axis.name} at a time" if axis.tile > 1 else ""
        self.add(p.Loop(var, begin, end, axis.tile, tuple(body), pipeline, note))
        for copy in pipeline.copies if pipeline else [x for x in body if isinstance(x, p.CopyToShared)]:
            self.spare.setdefault((self.of_array[copy.shared], replace(copy.shared, name="")), []).append(copy.shared)
        if place is not None:
            self.alone = False
            self.joined(op, carried, place)

    def _carry(self, op: t.For, i: int) -> str:
        """Declare the variable of a carried value with its init."""
        init, arg = op.init[i], op.body.args[i]
        place = self.layouts.place(arg)
        dtype = t.tile_type(arg).dtype
        wish = arg.name  # type: ignore[attr-defined]
        if init in self.mutable and init in self.variable and self.regions.users(init) == [op]:
            self.variable[arg] = self.variable[init]
        else:
            value = ZERO if floating(init) and place else self.value(init, place)
            self.variable[arg] = self.names.fresh(wish, f"{wish}_so_far")
            if place is None:
                self.add(p.Scalar(self.variable[arg], dtype, value, constant=False))
            elif floating(init):
                self.spread(init, place, self.variable[arg])
            else:
                self.add(p.Relayout(self.variable[arg], dtype, place, "copy", value))
        self._reuse(op, i)
        return self.variable[arg]

    def _reuse(self, op: t.For, i: int) -> None:
        """Let the next value of a carried one be computed into its variable, where nothing reads the old value later."""
        arg, value = op.body.args[i], yielded(op.body)[i]
        chain = [value]
        while isinstance(chain[-1], t.Dot) and self.regions.users(chain[-1].acc) == [chain[-1]]:
            chain.append(chain[-1].acc)
        first = chain[-1]
        if first is arg:
            chain.pop()
            for x in chain:
                self.into[x] = arg
            return
        if isinstance(first, Result) and isinstance(first.source, t.For):
            inner = first.source  # a loop inside carries the same value on
            if inner.init[first.index] is arg and self.regions.users(arg) == [inner]:
                self.mutable.add(arg)
            return
        if floating(first) or isinstance(first, Arg | Result | t.Load) or self.regions.block.get(first) is not op.body:
            return
        if len(self.regions.uses.get(value, ())) > 1 and yielded(op.body).count(value) > 1:
            return
        inside = nested_in(op.body)
        if self.regions.last_use(arg, op.body, inside) <= self.regions.position[first]:
            for x in chain:
                self.into[x] = arg

    def _hand_over(self, op: t.For, carried: list[str]) -> None:
        """Carried values take their next values, all at once."""
        moves: list[tuple[str, Op, Place | None]] = []
        for arg, name, value in zip(op.body.args, carried, yielded(op.body), strict=True):
            if floating(value) or self.variable.get(value) != name:
                moves.append((name, value, self.layouts.place(arg)))
        left = [(name, self.value(value, place), value) for name, value, place in moves]
        while left:  # one whose old value no other asks for comes next
            asked = [{str(v) for other, v, _ in left if other != name} for name, *_ in left]
            free = next((n for n, (name, *_) in enumerate(left) if name not in asked[n]), None)
            if free is not None:
                name, value, _ = left.pop(free)
                self.add(p.Assign(name, value))
                continue
            name, *_ = left[0]
            old = self.names.fresh(f"old_{name}")
            source = next(op_ for _, v, op_ in left if str(v) == name)
            place, dtype = self.layouts.place(source), t.tile_type(source).dtype
            self.add(p.Relayout(old, dtype, place, "copy", Name(name)) if place else p.Scalar(old, dtype, Name(name)))
            left = [(n, Name(old) if str(v) == name else v, o) for n, v, o in left]
        for i, name in enumerate(carried):
            self.results[op, i] = name

    def on_Result(self, op: Result) -> None:
        """What a loop or a scan hands out; a scan's tile may have taken a carried variable already."""
        self.variable.setdefault(op, self.results[op.source, op.index])

    def _bounds(self, op: t.For, axis: t.Axis) -> tuple[PlanTerm, PlanTerm]:
        begin: PlanTerm = ZERO
        end = size_term(axis.extent)
        if op.lo is not None:
            lo = call("cast", "int64_t", self.value(op.lo, None))
            begin = multiply(divide(lo, whole(axis.tile)), whole(axis.tile)) if axis.tile > 1 else lo
        if op.hi is not None:
            given, end = (call("cast", "int64_t", x) for x in (self.value(op.hi, None), end))
            if t.ends_inside(op.hi, axis.extent):
                return begin, given
            name = self.names.fresh(f"{axis.name}_end")
            self.add(p.Scalar(name, "i64", call("min", "pk::min", given, end), note="what lies beyond takes no part"))
            end = Name(name)
        return begin, end

    def _copies(self, op: t.For, axis: t.Axis) -> p.Pipeline | None:
        """Copies of the operands of this loop: ahead of their use where they are asynchronous, else at its top."""
        loads: list[Op] = [x for x in op.body.ops if x in self.staged]
        if not loads:
            return None
        slots = self.kernel.schedule.stages if self.dialect.pipelined else 1
        if slots > 1:
            slot = self.names.fresh("slot")
            stages = self._stages(loads, slots, slot, axis.name)
            return p.Pipeline(slots, self.names.fresh(f"stage_{axis.name}"), slot, tuple(stages))
        for stage in self._stages(loads, 1, "0", axis.name):
            self.add(stage)
        self._arrived()
        return None
