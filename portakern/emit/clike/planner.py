"""Builds the plan of a kernel: walks its operations once, after layouts and regions are known."""

from __future__ import annotations

from portakern.emit.clike import plan as p
from portakern.emit.clike.barriers import synchronised
from portakern.emit.clike.dialect import Dialect
from portakern.emit.clike.grid import note_of, unfolded
from portakern.emit.clike.layouts import Place, dims_of, floating
from portakern.emit.clike.loops import Loops
from portakern.emit.clike.names import CNames
from portakern.emit.clike.naming import base, ones
from portakern.emit.clike.regions import elementwise
from portakern.emit.clike.terms import ZERO, Apply, Name, PlanTerm, Word, call, multiply, size_term, whole
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, Yield, yielded
from portakern.ir.program import Program
from portakern.ir.size import product


def build_plan(program: Program, dialect: Dialect) -> p.ProgramPlan:
    """The plan of every kernel of ``program``; the rules of :mod:`portakern.emit.clike.rules` must hold."""
    return p.ProgramPlan(program.name, tuple(Planner(k, dialect).plan() for k in program.kernels))


class Planner(Loops):
    """One kernel's plan.  Platforms may subclass it where data in the :class:`Dialect` is not enough."""

    def plan(self) -> p.KernelPlan:
        origins = self._origins()
        self._hint_names()
        self.block(self.kernel.body)
        body = [*origins, *self._lefts([a.name for a in self.kernel.axes if a.kind != "loop"]), *self.out[0]]
        body = synchronised(body) if self.dialect.synchronised else body
        return p.KernelPlan(
            self.kernel.name, self.kernel.family, tuple(self.params), tuple(self.layouts.layouts), tuple(self.shared),
            tuple(body), product(tuple(a.steps for a in self.kernel.grid)), self.warps, self.threads,
            names=frozenset(self.names.taken | self.inner),
        )  # fmt: skip

    def _origins(self) -> list[p.Statement]:
        """Where this block's tiles begin, from the linear block index: the last axis varies fastest."""
        grid = [a for a in self.kernel.grid if a.steps != 1]
        found: list[p.Statement] = []
        for a in self.kernel.axes:
            self.addresses.start[a.name] = ZERO
            self.addresses.left_name[a.name] = self.names.fresh(f"{a.name}_left")
        block: PlanTerm = Word(self.dialect.block)
        named = self.dialect.block.isidentifier()
        if len(grid) > 1 and not named:
            name = self.names.fresh("block_index")
            found.append(p.Scalar(name, "i64", block))
            block = Name(name)
        elif grid and not named:
            block = call("cast", "int64_t", block)
        tiles = unfolded(block, grid)
        for a in reversed(grid):
            name = self.names.fresh(*([f"{a.name}0"] if a.tile > 1 else [a.name, f"{a.name}_index"]))
            self.addresses.start[a.name] = Name(name)
            found.append(p.Scalar(name, "i64", multiply(tiles[a.name], whole(a.tile)), note=note_of(a)))
        return found

    def _hint_names(self) -> None:
        for op in self.kernel.body.walk():
            if isinstance(op, t.Store) and dims_of(op.value):
                self.hints.setdefault(op.value, f"{self.variable[op.buffer]}_tile")
            elif isinstance(op, t.Store):
                self.hints.setdefault(op.value, f"{self.variable[op.buffer]}_value")
            elif isinstance(op, t.For):
                for arg, value in zip(op.body.args, yielded(op.body), strict=True):
                    self.hints.setdefault(value, f"new_{arg.name}")  # type: ignore[attr-defined]
                for bound, word in ((op.lo, "start"), (op.hi, "limit")):
                    if bound is not None:
                        self.hints.setdefault(bound, f"{op.axis}_{word}")

    # ---- statements

    def block(self, block: Block) -> None:
        self._take_over(block)
        for op in block.ops:
            if floating(op) or (elementwise(op) and self.regions.root[op] is not op):
                continue
            rule = getattr(self, f"on_{type(op).__name__}", None)
            if rule is not None:
                rule(op)
            elif elementwise(op):
                self.region(op)
            else:
                op.fail("has no rule in the C family")

    def on_Yield(self, op: Yield) -> None:
        pass

    # ---- memory

    def on_Load(self, op: t.Load) -> None:
        if op in self.staged:
            if not self.loops:
                self._stage_now([op])
            return  # copied at the top of the loop
        if op in self.loads.lists:
            return  # read by copies
        buffer = self.variable[op.buffer]
        if not dims_of(op):
            access = self.addresses.access(op, buffer, ())
            element: PlanTerm = Apply("element", "15|*{0}", (access.origin,))
            if picks := (*self._picks(op, None), *self.addresses.pixels(op, "")):
                assert access.pad is not None
                element = call("gather", "pk::gather", access.origin, access.pad, *picks)
            name, define = self.name(op, f"{buffer}_value")
            self.add(p.Scalar(name, t.tile_type(op).dtype, element, define, constant=op not in self.mutable))
            return
        place = self.layouts.place(op)
        assert place is not None
        picks = (*self._picks(op, place), *self.addresses.pixels(op, place.layout.axes[0]))
        name, define = self.name(op, f"{buffer}_tile")
        access = self.addresses.access(op, buffer, dims_of(op))
        self.add(p.LoadTile(name, t.tile_type(op).dtype, place, access, define, picks=picks))

    def _picks(self, op: t.Load, place: Place | None) -> tuple[PlanTerm, ...]:
        """The coordinates that tiles give, each with the size and stride of its dim, for a load at ``place``."""
        have = t.buffer_type(op.buffer)
        found: list[PlanTerm] = []
        for index, size, stride in zip(op.indices, have.shape, have.element_strides, strict=True):
            if index.gather >= 0:
                tile = op.gathers[index.gather]
                dims = dims_of(tile)
                where = None if not dims else place if place is None or dims == dims_of(op) else place.vector(dims[0][0])
                found.append(call("along", "pk::along", self.value(tile, where), size_term(size), size_term(stride)))
        return tuple(found)

    def on_Store(self, op: t.Store) -> None:
        place = self.layouts.place(op.value)
        dims = dims_of(op.value)
        if place is None and dims:
            place = self._any_place(dims)
        value = self.value(op.value, place)
        access = self.addresses.access(op, self.variable[op.buffer], dims)
        picks = self.addresses.pixels(op, place.layout.axes[0]) if place is not None else ()
        self.add(p.StoreTile(value, t.tile_type(op.value).dtype, place, access, op.mode, picks=picks))

    # ---- reductions and changes of layout

    def on_Reduce(self, op: t.Reduce) -> None:
        source = self.layouts.place(op.x) or self._any_place(dims_of(op.x))
        if source.side != "tile":
            source = self._any_place(dims_of(op.x))
        value = self.value(op.x, source)
        gone = "rows" if source.layout.axes[0] == op.axis else "cols"
        word = f"{'col' if gone == 'rows' else 'row'}_{'count' if op.fn == 'sum' and ones(op.x) else op.fn}"
        name, define = self.name(op, word, f"{word}_{base(op.x, self.variable)}")
        self.add(p.Reduce(name, t.tile_type(op).dtype, op.fn, gone, value, source, self.layouts.place(op), define,
                          own=self.alone))

    def on_Scan(self, op: t.Scan) -> None:
        """The carried value is a variable that the scan changes: the loop's own where nothing else reads it."""
        place = self.layouts.place(op.x) or self._any_place(dims_of(op.x))
        if place.side != "tile":
            place = self._any_place(dims_of(op.x))
        value, dtype = self.value(op.x, place), t.tile_type(op.x).dtype
        tile, total = (next((u for u in self.regions.uses.get(op, ()) if isinstance(u, Result) and u.index == i), None)
                       for i in (0, 1))  # fmt: skip
        name, define = self.name(tile or op, f"running_{op.fn}_{base(op.x, self.variable)}", f"running_{op.fn}")
        carry = self._carried(op, place, total)
        self.results[op, 0], self.results[op, 1] = name, carry
        self.add(p.Scan(name, dtype, op.fn, value, place, carry, op.reverse, op.exclusive, define))

    def on_ScanBy(self, op: t.ScanBy) -> None:
        """One value made of the elements of all tiles is scanned; what is asked for are members of it."""
        dims, n = dims_of(op.xs[0]), len(op.xs)
        place = next((x for x in map(self.layouts.place, op.xs) if x is not None and x.side == "tile"), None)
        place = place or self._any_place(dims)
        inside = CNames(set())
        names = [inside.fresh(a.name.removesuffix("_left")) for a in op.join.args[:n]]  # type: ignore[attr-defined]
        members = tuple((t.tile_type(x).dtype, name) for x, name in zip(op.xs, names, strict=True))
        part, scanned = self.names.fresh("Part"), self.names.fresh("scanned")
        free = CNames(self.names.taken)
        sides = free.fresh("before"), free.fresh("after")
        values = tuple(self.value(x, place) for x in op.xs)
        self.add(p.ScanBy(scanned, part, members, values, place, sides, *self.function_of_two(op.join, names, sides, free)))
        for result in self.regions.uses.get(op, ()):
            if isinstance(result, Result):
                self._member(result, scanned, part, members[result.index % n], result.index >= n, place)

    def on_SortBy(self, op: t.SortBy) -> None:
        """Where the elements of a line go is found once; every tile that somebody asks for is put in that order."""
        place = next((x for x in map(self.layouts.place, op.xs) if x is not None and x.side == "tile"), None)
        place = place or self._any_place(dims_of(op.xs[0]))
        into = place if not op.into else self._any_place(op.dims)
        order, keys = self.names.fresh("order"), op.xs[0]
        self.add(p.Order(order, t.tile_type(keys).dtype, self.value(keys, place), place, into, op.count))
        for result in self.regions.uses.get(op, ()):
            if isinstance(result, Result):
                if op.moves_places(self.kernel, result.index):
                    self.results[op, result.index] = order
                    continue
                x = op.xs[result.index]
                name = self.names.fresh(self.hints.get(result, "") or f"sorted_{base(x, self.variable)}")
                self.results[op, result.index] = name
                self.add(p.InOrder(name, t.tile_type(x).dtype, into, self.value(x, place), order))

    def _member(self, op: Result, scanned: str, part: str, member: tuple[str, str], last: bool, place: Place) -> None:
        dtype, name = member
        held: Place | None = place
        if last:
            held = place.vector(dims_of(op)[0][0]) if dims_of(op) else None
        variable = self.names.fresh(f"{'last' if last else 'running'}_{name}")
        self.results[op.source, op.index] = variable
        self.add(p.Member(variable, dtype, held, scanned, part, name, last))

    def _carried(self, op: t.Scan, place: Place, total: Op | None) -> str:
        if total is None and t.starts_anew(op):
            return ""
        if self.loops and op.carry in self.loops[-1].body.args and self.regions.users(op.carry) == [op]:
            return self.variable[op.carry]
        dtype, where = t.tile_type(op.x).dtype, place.vector(dims_of(op.x)[0][0]) if len(dims_of(op.x)) == 2 else None
        name = self.names.fresh("total", f"total_{base(op.x, self.variable)}")
        if where is None:
            self.add(p.Scalar(name, dtype, self.value(op.carry, None), constant=False))
        elif floating(op.carry):
            self.spread(op.carry, where, name)
        else:
            self.add(p.Relayout(name, dtype, where, "copy", self.value(op.carry, where)))
        return name

    def on_Permute(self, op: t.Permute) -> None:
        if self.loads.only_operand(op):
            return
        place, source = self.layouts.place(op), self.layouts.place(op.x)
        if place is None or source is None or place == source:
            self.variable[op] = self.held(op.x, source)
            return
        name, define = self.name(op, f"{base(op.x, self.variable)}_transposed")
        self.add(p.Relayout(name, t.tile_type(op).dtype, place, "transpose", self.value(op.x, source), define))
