"""Statements: what goes into which loop nest, loops of the kernel that carry tiles, contractions, running values."""

from __future__ import annotations

from portakern.emit.python_like import Expr, assigned_in_place, assignments, call, carried_hazard
from portakern.ir.core import Arg, Block, Op, Result, yielded
from portakern.ir.tile import Dot, For, Reduce, Scan, Store, starts_anew, tile_type

from . import words
from .nests import Elements, Group, NestText, nest
from .regions import is_scalar, is_tile


class StatementText(NestText):
    """Prints blocks of operations in order."""

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, For):
                self._flush()
                self._loop(op)
            elif isinstance(op, Dot):
                self._flush()
                self._dot(op)
            elif isinstance(op, Scan):
                self._flush()
                self._scan(op)
            elif isinstance(op, Store | Reduce) or op in self.regions.stored:
                self._sink(op)
            elif is_scalar(op) and op in self.regions.named:
                if op in self.in_place or self._depends_on_groups(op):
                    self._flush()
                self._named_scalar(op)

    def _depends_on_groups(self, op: Op) -> bool:
        return any(self.regions.needs(op, sink) for group in self.groups for sink in group.sinks)

    def _sink(self, op: Op) -> None:
        """Add a sink to an open loop nest over the same axes, or open a new one.

        A sink may join a nest before the last one when nothing between them computes what it needs. One that overwrites
        a carried array stays behind all who read it.
        """
        space = self.regions.space(op)
        for group in reversed(self.groups):
            waits = any(isinstance(s, Reduce) and self.regions.needs(op, s) for s in group.sinks)
            if group.space == space and not waits:
                group.sinks.append(op)
                return
            if op in self.in_place or any(self.regions.needs(op, s) for s in group.sinks):
                break
        self.groups.append(Group(space, [op]))

    def _named_scalar(self, op: Op) -> None:
        name = self._scalar_name(op)
        self.out.line(f"{name} = {self._compute(op, {})}")
        self.scalars[op] = Expr(name)

    def _loop(self, loop: For) -> None:
        a = self.axes[loop.axis]
        named = self.regions.named | self.regions.stored
        results = yielded(loop.body)
        in_place = assigned_in_place(loop.body, named)
        for arg, init in zip(loop.body.args, loop.init, strict=True):
            self._carry(arg, init)
        self._flush()
        for value, arg in zip(results, loop.body.args, strict=True):
            if value in in_place:
                self.in_place[value] = in_place[value]
                if is_tile(value):
                    self.locals[value] = self.locals[in_place[value]]
            else:
                self.hints[value] = f"new_{arg.name}"  # type: ignore[attr-defined]
        if a.axis.tile > 1 and a.start == "0":
            a.start = self.names.fresh(f"{a.name}0")
        first = a.name if a.axis.tile == 1 else a.start
        lo = f"{self._scalar(loop.lo).at(11)} // {self._tile(a.axis)} * {self._tile(a.axis)}" if loop.lo else "0"
        hi = call("min", self._scalar(loop.hi), self._extent(a.axis)).text if loop.hi else self._extent(a.axis).text
        step = f", {self._tile(a.axis)}" if a.axis.tile > 1 else ""
        heading = f"range({hi})" if lo == "0" and not step else f"range({lo}, {hi}{step})"
        with self.out.block(f"for {first} in {heading}:"):
            if a.axis.tile > 1:
                self._tile_end(a)
            self._block(loop.body)
            self._flush()
            self._next(loop, in_place)
        for user in self.users.get(loop, []):
            if isinstance(user, Result):
                arg = loop.body.args[user.index]
                if is_tile(arg):
                    self.locals[user] = self.locals[arg]
                else:
                    self.scalars[user] = self.scalars[arg]

    def _carry(self, arg: Op, init: Op) -> None:
        """Give a carried value its variable or array, and its first value."""
        name = self.names.fresh(arg.name)  # type: ignore[attr-defined]
        if is_scalar(arg):
            first = self._scalar(init)
            self.out.line(f"{name} = {first}")
            self.scalars[arg] = Expr(name)
            return
        self.names.taken.discard(name)
        self.locals[arg] = self._allocate(name, tile_type(arg), None)
        self._flush()
        self._elementwise_assign(arg, init)

    def _next(self, loop: For, in_place: dict[Op, Arg]) -> None:
        """Hand the yielded values that were not assigned in place to the next round."""
        pairs = [(arg, v) for arg, v in zip(loop.body.args, yielded(loop.body), strict=True)
                 if v not in in_place and v is not arg]  # fmt: skip
        arrays = [(arg, v) for arg, v in pairs if is_tile(arg)]
        plain = [(arg, v) for arg, v in pairs if is_scalar(arg)]
        for arg, value in arrays:
            self._elementwise_assign(arg, value)
        texts = [(self.scalars[arg].text, self._scalar(v).text) for arg, v in plain]
        for line in assignments(texts, carried_hazard(plain, self.regions.named)):
            self.out.line(line)

    def _elementwise_assign(self, target: Op, value: Op) -> None:
        """``target[...] = value[...]`` as a loop nest of its own."""
        axes = self._order(frozenset(tile_type(target).axes), [])
        env: dict[Op, Expr] = {}
        with nest(self, axes):
            self.out.line(f"{self._element_of(self.locals[target])} = {self._compute_value(value, env)}")

    def _dot(self, op: Dot) -> None:
        left, right = self.regions.operands(op)
        target = self.locals.get(op)
        if target is None:
            target = self.locals[op] = self._allocate(self.hints.get(op) or "product", tile_type(op), None)
        if self.locals.get(op.acc) != target:
            axes = self._order(frozenset(tile_type(op).axes), [])
            with nest(self, axes):
                self.out.line(f"{self._element_of(target)} = {self._compute_value(op.acc, {})}")
        rows, cols = tile_type(op.acc).axes
        counts = [self._count(self.axes[x]) for x in (rows, cols, op.axis)]
        self.out.line(call("dot", target.name, self.locals[left].name, self.locals[right].name, *counts).text)

    def _scan(self, op: Scan) -> None:
        """A loop nest of its own, the scanned axis innermost, into a local array."""
        results = {u.index: u for u in self.users.get(op, []) if isinstance(u, Result)}
        of = tile_type(op.x)
        if 0 in results:
            self.locals[results[0]] = self._allocate(f"running_{op.fn}", of, None)
        if 1 in results and is_tile(op.carry):
            self.locals[results[1]] = self._allocate("new_total", tile_type(op.carry), None)
        order = [*(a for a in of.axes if a != op.axis), op.axis]
        self._scan_line(op, Elements(self, Group(frozenset(order), [op]), order), order, results)

    def _scan_line(self, op: Scan, plan: Elements, order: list[str], results: dict[int, Result]) -> None:
        depth = len(plan.order) - len(order)
        if len(order) > 1:
            with self.out.block(self._for(order[0])):
                plan.statements(depth + 1)
                self._scan_line(op, plan, order[1:], results)
            return
        of = tile_type(op.x).dtype
        running = Expr(self.names.fresh("running"))
        self.out.line(f"{running} = {words.identity(op.fn, of)}")
        with self.out.block(self._for(op.axis, op.reverse)):
            plan.statements(depth + 1)
            joined = words.accumulate(op.fn, running, self._compute_value(op.x, plan.env), of)
            lines = [f"{running} = {joined}"]
            if 0 in results:
                lines.append(f"{self._element_of(self.locals[results[0]])} = {running}")
            for line in reversed(lines) if op.exclusive else lines:
                self.out.line(line)
        if not starts_anew(op):  # what came before is put to all of them afterwards, in vector lanes
            before = self._compute_value(op.carry, plan.env)
            if 0 in results:
                element = self._element_of(self.locals[results[0]])
                with self.out.block(self._for(op.axis)):
                    self.out.line(f"{element} = {words.accumulate(op.fn, before, element, of)}")
            self.out.line(f"{running} = {words.accumulate(op.fn, before, running, of)}")
        if 1 in results and is_tile(op.carry):
            self.out.line(f"{self._element_of(self.locals[results[1]])} = {running}")
        elif 1 in results:
            self.scalars[results[1]] = running
