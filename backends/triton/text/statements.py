"""Statements: named values, loops that carry tiles, running values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import prod

from portakern.emit.python_like import Expr, PythonNames, PythonWriter, assigned_in_place, assignments, call, carried_hazard
from portakern.ir.core import Block, Op, Result, Yield, yielded
from portakern.ir.tile import (
    Axis,
    Binary,
    Cast,
    Const,
    Extent,
    For,
    Load,
    Scan,
    ScanBy,
    Select,
    SortBy,
    Start,
    Store,
    ends_inside,
    identity,
    starts_anew,
    tile_type,
)

from . import operations
from .ahead import guard, turned
from .axes import RESERVED
from .names import name_hint
from .values import TileValue
from .walk import WalkText

UNROLLED = 32
"""Steps of a walk along taps, and of those in it, up to which it is unrolled."""

FEW = 8
"""Steps of the innermost of several loops, from which on it loads ahead for long enough by itself."""

_JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@dataclass
class StatementText(WalkText):
    """Prints blocks of operations line by line."""

    assigned: dict[Op, str] = field(default_factory=dict)
    hints: dict[Op, str] = field(default_factory=dict)
    functions: dict[object, tuple[str, str]] = field(default_factory=dict)  # of scans, by what they say: name and text

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._statement(op)

    def _statement(self, op: Op) -> None:
        match op:
            case Store():
                self._store(op)
            case For():
                self._loop(op)
            case Scan():
                self._scan(op)
            case ScanBy():
                self._scan_by(op)
            case SortBy():
                self._sort_by(op)
            case Yield() | Result():
                pass
            case Select() if op in self.named and op not in self.assigned and (guarded := guard(op)) is not None:
                self._guarded(op, *guarded)
            case _:
                value = self._value(op)
                if op in self.assigned:
                    self.out.line(f"{self.assigned[op]} = {self._spelled_out(value, tile_type(op))}")
                    value = TileValue(Expr(self.assigned[op]), tile_type(op).axes)
                elif op in self.named:
                    name = self.names.fresh(self._hint(op))
                    self.out.line(f"{name} = {value.expr}")
                    value = TileValue(Expr(name), value.have)
                self.values[op] = value

    def _hint(self, op: Op) -> str:
        hint = self.hints.get(op) or name_hint(op, lambda x: self.users.get(x, []))
        of_load = isinstance(op, Load) or (isinstance(op, Cast) and isinstance(op.x, Load))
        return f"{hint}_tile" if of_load and hint in self.names.taken else hint

    def _loop(self, loop: For) -> None:
        nest = self._walked_as_one(loop)
        inner = nest[-1]
        carried = []
        for arg, init in zip(loop.body.args, loop.init, strict=True):
            goes_on = isinstance(init, Result) and isinstance(init.source, For) and len(self.users[init]) == 1
            name = self._full(init).text if goes_on else self.names.fresh(arg.name)  # type: ignore[attr-defined]
            if not goes_on:
                self.out.line(f"{name} = {self._full(init)}")
            carried.append(name)
        for x in nest:
            for arg, name in zip(x.body.args, carried, strict=True):
                self.values[arg] = TileValue(Expr(name), tile_type(arg).axes)
        outside = set(self.names.taken)
        wide = self.axes[loop.axis].wide or self._pid_is_wide()  # such walks count apart
        ahead = turned(self.kernel, loop, self.named) if len(nest) == 1 and not wide else None
        body = ahead.body if ahead else inner.body
        if ahead:
            self.named |= ahead.at_once
            self.hints |= {op: "weights" if isinstance(op, Cast) else "kept" for op in ahead.at_once - set(yielded(loop.body))}
        in_place = assigned_in_place(body, self.named)
        by_arg = dict(zip(inner.body.args, carried, strict=True))
        results = yielded(inner.body)
        for value, arg in zip(results, inner.body.args, strict=True):
            if value in in_place:
                self.assigned[value] = by_arg[in_place[value]]
            else:
                self.hints[value] = f"new_{by_arg[arg]}"
        left = [(arg, v) for arg, v in zip(inner.body.args, results, strict=True) if v not in in_place and v is not arg]

        def carry_on(wanted: Collection[Op] = inner.body.args) -> None:
            kept = [(arg, v) for arg, v in left if arg in wanted]
            pairs = [(by_arg[arg], self._full(v).text) for arg, v in kept]
            for line in assignments(pairs, carried_hazard(kept, self.named)):
                self.out.line(line)

        if ahead:
            read = {u.index for u in self.users.get(loop, []) if isinstance(u, Result) and self.users.get(u)}
            self._loop_ahead(loop, ahead, carry_on, [arg for number, arg in enumerate(loop.body.args) if number in read])
        else:
            counter, head = self._loop_head(nest)
            with self.out.block(head):
                self._begin_step(nest, counter)
                self._block(inner.body)
                carry_on()
        for number, (name, arg) in enumerate(zip(carried, loop.body.args, strict=True)):
            for user in self.users.get(loop, []):
                if isinstance(user, Result) and user.index == number:
                    self.values[user] = TileValue(Expr(name), tile_type(arg).axes)
        self.names.taken = outside  # a later loop may call its own values the same

    def _walked_as_one(self, loop: For) -> tuple[For, ...]:
        """``loop`` and the loops that are all that one does, where one counter is to walk them: Triton loads ahead in the
        innermost loop alone, which takes too few steps for that.  Else ``loop`` by itself."""
        nest = [loop]
        while (inside := _only_loop(nest[-1])) is not None:
            nest.append(inside)
        axes = [self.axes[x.axis] for x in nest]
        plain = all(isinstance(a.axis.extent, int) and not a.wide for a in axes) and all(x.lo is x.hi is None for x in nest)
        return tuple(nest) if plain and self.kernel.family == "contraction" and int(axes[-1].axis.steps) < FEW else (loop,)  # type: ignore[arg-type]

    def _loop_head(self, nest: tuple[For, ...]) -> tuple[str, str]:
        """What counts the steps of a loop, or of a walk of several as one, and the line that begins it."""
        axes = [self.axes[x.axis] for x in nest]
        if len(nest) > 1:
            steps = [int(a.axis.steps) for a in axes]  # type: ignore[arg-type]
            walked = ", ".join(f"{n} along {a.axis.name}" for n, a in zip(steps, axes, strict=True) if n > 1)
            self.out.line(f"# every step: {walked}")
            counter = self.names.fresh("step")
            return counter, f"for {counter} in range({prod(steps)}):"
        loop, a = next(iter(nest)), next(iter(axes))
        lo, hi = self._limits(loop, a.axis)
        step = "" if a.axis.tile == 1 else f", {self._tile(a.axis)}"
        apart = self._widened(loop) or (self._narrow(loop) and a.axis.tile == 1)
        counter = self.names.fresh(f"{a.name}_step") if apart else a.start
        if self._few(loop):
            return counter, f"for {counter} in tl.static_range({hi}):"
        stages = self.kernel.schedule.stages
        if self.kernel.family == "recurrence" and stages > 1:  # asked for here, it is done for loads that no product takes, too
            return counter, f"for {counter} in tl.range({lo}, {hi}{step}, num_stages={stages}):"
        return counter, f"for {counter} in range({lo}, {hi}{step}):"

    def _narrow(self, loop: For) -> bool:
        """Whether a walk counts in 32 bits what others need in 64: its end is known to fit, or was computed so."""
        a = self.axes[loop.axis]
        return a.wide and (isinstance(a.axis.extent, int) or loop.hi is not None)

    def _widened(self, loop: For) -> bool:
        """Whether a walk counts in 64 bits, as the number of its program does that its bounds are made of, what fits 32."""
        bounded = loop.lo is not None or loop.hi is not None
        return bounded and not self.axes[loop.axis].wide and self._pid_is_wide()

    def _begin_step(self, nest: tuple[For, ...], counter: str) -> None:
        """Where a step is, along the axis of every loop of the nest."""
        left = prod(int(self.axes[x.axis].axis.steps) for x in nest) if len(nest) > 1 else 1  # type: ignore[arg-type]
        outer = False
        for loop in nest:
            a = self.axes[loop.axis]
            if len(nest) > 1:
                steps = int(a.axis.steps)  # type: ignore[arg-type]
                left //= steps
                at = f"{counter} // {left}" if left > 1 else counter
                at = "0" if steps == 1 else f"{at} % {steps}" if outer else at
                outer = outer or steps > 1
                self.out.line(f"{a.start} = {at}{f' * {self._tile(a.axis)}' if a.axis.tile > 1 and steps > 1 else ''}")
            elif self._widened(loop):
                self.out.line(f"{a.start} = tl.cast({counter}, tl.int32)")
            elif counter != a.start:
                self.out.line(f"{a.start} = tl.full((), 0, tl.int64) + {counter}")
            if a.axis.tile > 1 and a.axis.name in self._spread_axes(loop.body):
                reach = f"tl.arange(0, {self._tile(a.axis)})"
                self.out.line(f"{a.name} = {a.start} + {f'{reach}.to(tl.int64)' if self._narrow(loop) else reach}")

    def _few(self, loop: For) -> bool:
        """Whether a walk is unrolled: along the taps of windows, where they and those of the walks in it are few."""
        axis = self.axes[loop.axis].axis
        short = axis.tile == 1 and isinstance(axis.extent, int) and loop.lo is None and loop.hi is None
        if not short or self.kernel.family != "rows":
            return False
        steps = axis.extent
        for op in loop.body.walk():
            if isinstance(op, For):
                extent = self.axes[op.axis].axis.extent
                steps *= extent if isinstance(extent, int) else UNROLLED + 1  # type: ignore[operator]
        return steps <= UNROLLED  # type: ignore[operator]

    def _limits(self, loop: For, axis: Axis) -> tuple[str, Expr]:
        """Where a walk starts (rounded down to whole tiles) and ends (at most where the axis does)."""
        lo, hi = "0", self._extent(axis)
        if loop.lo is not None:
            lo = self._scalar(loop.lo).text
            if not self._multiple(loop.lo, axis.tile):
                lo = f"{self._scalar(loop.lo).at(11)} // {self._tile(axis)} * {self._tile(axis)}"
        if loop.hi is not None:
            most, given = self._most(loop.hi), self._scalar(loop.hi)
            within = most is not None and isinstance(axis.extent, int) and most <= axis.extent
            within = within or ends_inside(loop.hi, axis.extent)
            hi = given if within else call("tl.minimum", given, self._extent(axis))
        return lo, hi

    def _multiple(self, op: Op, tile: int) -> bool:
        """Whether an integer scalar is known to be a multiple of ``tile``."""
        match op:
            case _ if tile == 1:
                return True
            case Start(axis=axis):
                return self.kernel.axis[axis].tile % tile == 0
            case Const(value=int() as value) | Extent(size=int() as value):
                return value % tile == 0
            case Binary(fn="add" | "max" | "min", lhs=lhs, rhs=rhs):
                return self._multiple(lhs, tile) and self._multiple(rhs, tile)
        return False

    def _most(self, op: Op) -> int | None:
        """The largest value of an integer scalar, where that is known."""
        match op:
            case Start(axis=axis):
                a = self.kernel.axis[axis]
                return (a.steps - 1) * a.tile if isinstance(a.steps, int) else None
            case Const(value=int() as value) | Extent(size=int() as value):
                return value
            case Binary(fn="add", lhs=lhs, rhs=rhs):
                a, b = self._most(lhs), self._most(rhs)
                return None if a is None or b is None else a + b
        return None

    def _scan(self, op: Scan) -> None:
        """Running values of the tile alone, then what came before; what goes on is a reduction of its own."""
        of, results = tile_type(op.x), {u.index: u for u in self.users.get(op, []) if isinstance(u, Result)}
        position, x = of.axes.index(op.axis), self._full(op.x)
        if 1 in results and not (x.text.isidentifier()):
            name = self.names.fresh("tile")
            self.out.line(f"{name} = {x}")
            x = Expr(name)
        anew = starts_anew(op)
        if 0 in results:
            made = operations.scan(op.fn, x, position, of.dtype, op.reverse)
            if op.exclusive:
                size = self._tile(self.kernel.axis[op.axis])
                nothing = operations.constant(identity(op.fn, of.dtype), of.dtype)
                made = call("moved_on", made, nothing, size, str(position), str(op.reverse))
            if not anew:
                before = self._broadcast(self._get(op.carry), tile_type(op.carry).dims, of.dims)
                made = operations.binary(_JOIN[op.fn], before.expr, made, of.dtype) or self._missing(op)
            name = self.names.fresh(f"running_{op.fn}")
            self.out.line(f"{name} = {made}")
            self.values[results[0]] = TileValue(Expr(name), of.axes)
        if 1 in results:
            total = operations.reduce(op.fn, x, position, of.dtype) or self._missing(op)
            if not anew:
                total = operations.binary(_JOIN[op.fn], self._full(op.carry), total, of.dtype) or total
            name = self.names.fresh("new_total")
            self.out.line(f"{name} = {total}")
            self.values[results[1]] = TileValue(Expr(name), tile_type(op.carry).axes)

    def _scan_by(self, op: ScanBy) -> None:
        """Running values of the tile; the last ones are picked from them, since a reduction may change the order."""
        of, results = tile_type(op.xs[0]), {u.index: u for u in self.users.get(op, []) if isinstance(u, Result)}
        position, xs, n = of.axes.index(op.axis), [self._full(x) for x in op.xs], len(op.xs)
        names = [self.names.fresh(f"running_{name}") for name in _arrays(op)]
        given = Expr(f"({', '.join(x.text for x in xs)})") if n > 1 else xs[0]
        self.out.line(f"{', '.join(names)} = {call('tl.associative_scan', given, str(position), self._function(op.join))}")
        for index, result in sorted(results.items()):
            name, dtype = names[index % n], tile_type(result).dtype
            if index < n:
                self.values[result] = TileValue(Expr(name), of.axes)
                continue
            size = self._tile(self.kernel.axis[op.axis])
            place = self._along(Expr(f"tl.arange(0, {size})"), op.axis, of.dims)
            last = call("last_of", Expr(name), place, str(size), str(position)).text
            total = self.names.fresh(f"last_{name.removeprefix('running_')}")
            self.out.line(f"{total} = {last}{'.to(tl.int1)' if dtype == 'bool' else ''}")
            self.values[result] = TileValue(Expr(total), tile_type(result).axes)

    def _sort_by(self, op: SortBy) -> None:
        """Where the elements of a line go is found once; every tile that somebody asks for is gathered in that order."""
        size, wide = self._tile(self.kernel.axis[op.axis]), tile_type(op.xs[0]).dtype == "i64"
        few = self._tile(self.kernel.axis[op.into[0][0]]) if op.into else size
        order = self.names.fresh("order")
        self.out.line(f"{order} = {call('sorted_order_64' if wide else 'sorted_order', self._full(op.xs[0]), size, few)}")
        dims = tuple(axis for axis, _ in op.dims)
        for result in self.users.get(op, []):
            if not isinstance(result, Result):
                continue
            if op.moves_places(self.kernel, result.index):
                self.values[result] = TileValue(Expr(order), dims)
                continue
            name = self.names.fresh(f"sorted_{name_hint(op.xs[result.index], lambda x: self.users.get(x, []))}")
            self.out.line(f"{name} = {call('tl.gather', self._full(op.xs[result.index]), order, '0')}")
            self.values[result] = TileValue(Expr(name), dims)

    def _function(self, join: Block) -> str:
        """The name of the function that ``join`` becomes, which stands before the kernel."""
        if join.says not in self.functions:
            name = self.names.fresh(f"{self.kernel.name}_join")
            out, names = self.out, self.names
            self.out, self.names = PythonWriter(), PythonNames((*RESERVED, name))
            parameters = [self.names.fresh(a.name) for a in join.args]  # type: ignore[attr-defined]
            self.values.update((a, TileValue(Expr(p))) for a, p in zip(join.args, parameters, strict=True))
            with self.out.block(f"def {name}({', '.join(parameters)}):"):
                self._block(join)
                self.out.line(f"return {', '.join(self._full(v).text for v in yielded(join))}")
            self.functions[join.says] = name, "@triton.jit\n" + "\n".join(self.out.lines) + "\n"
            self.out, self.names = out, names
        return self.functions[join.says][0]


def _only_loop(loop: For) -> For | None:
    """The loop that is all that ``loop`` does, which carries its values on and hands them back; ``None`` where it does more."""
    rest = [op for op in loop.body.ops if not isinstance(op, Result | Yield)]
    if len(rest) != 1 or not isinstance(rest[0], For) or tuple(rest[0].init) != tuple(loop.body.args):
        return None
    given = yielded(loop.body)
    handed = all(isinstance(v, Result) and v.source is rest[0] and v.index == n for n, v in enumerate(given))
    return rest[0] if handed else None


def _arrays(op: ScanBy) -> list[str]:
    """What the arrays of a scan are called in its function."""
    return [a.name.removesuffix("_left") for a in op.join.args[: len(op.xs)]]  # type: ignore[attr-defined]
