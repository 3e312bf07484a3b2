"""Statements: named values, loops that carry tiles, running values."""

from __future__ import annotations

from dataclasses import dataclass, field

from portakern.emit.python_like import Expr, assigned_in_place, assignments, call, carried_hazard
from portakern.ir.core import Block, Op, Result, Yield, yielded
from portakern.ir.tile import Axis, Binary, Cast, Const, Extent, For, Load, Scan, Start, Store, identity, starts_anew, tile_type

from . import operations
from .memory import TritonMemoryText
from .names import name_hint
from .values import TileValue

_JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@dataclass
class StatementText(TritonMemoryText):
    """Prints blocks of operations line by line."""

    assigned: dict[Op, str] = field(default_factory=dict)
    hints: dict[Op, str] = field(default_factory=dict)

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
            case Yield() | Result():
                pass
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
        a = self.axes[loop.axis]
        carried = []
        for arg, init in zip(loop.body.args, loop.init, strict=True):
            goes_on = isinstance(init, Result) and isinstance(init.source, For) and len(self.users[init]) == 1
            name = self._full(init).text if goes_on else self.names.fresh(arg.name)  # type: ignore[attr-defined]
            if not goes_on:
                self.out.line(f"{name} = {self._full(init)}")
            carried.append(name)
            self.values[arg] = TileValue(Expr(name), tile_type(arg).axes)
        outside = set(self.names.taken)
        in_place = assigned_in_place(loop.body, self.named)
        by_arg = dict(zip(loop.body.args, carried, strict=True))
        results = yielded(loop.body)
        for value, arg in zip(results, loop.body.args, strict=True):
            if value in in_place:
                self.assigned[value] = by_arg[in_place[value]]
            else:
                self.hints[value] = f"new_{by_arg[arg]}"
        lo, hi = self._limits(loop, a.axis)
        step = "" if a.axis.tile == 1 else f", {self._tile(a.axis)}"
        narrow = a.wide and isinstance(a.axis.extent, int)  # the walk counts in 32 bits
        counter = self.names.fresh(f"{a.name}_step") if narrow and a.axis.tile == 1 else a.start
        with self.out.block(f"for {counter} in range({lo}, {hi}{step}):"):
            if counter != a.start:
                self.out.line(f"{a.start} = tl.full((), 0, tl.int64) + {counter}")
            if a.axis.tile > 1 and a.axis.name in self._spread_axes(loop.body):
                reach = f"tl.arange(0, {self._tile(a.axis)})"
                self.out.line(f"{a.name} = {a.start} + {f'{reach}.to(tl.int64)' if narrow else reach}")
            self._block(loop.body)
            left = [(arg, v) for arg, v in zip(loop.body.args, results, strict=True) if v not in in_place and v is not arg]
            pairs = [(by_arg[arg], self._full(v).text) for arg, v in left]
            for line in assignments(pairs, carried_hazard(left, self.named)):
                self.out.line(line)
        for number, (name, arg) in enumerate(zip(carried, loop.body.args, strict=True)):
            for user in self.users.get(loop, []):
                if isinstance(user, Result) and user.index == number:
                    self.values[user] = TileValue(Expr(name), tile_type(arg).axes)
        self.names.taken = outside  # a later loop may call its own values the same

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
            hi = given if within else call("tl.minimum", given, self._extent(axis))
        return lo, hi

    def _multiple(self, op: Op, tile: int) -> bool:
        """Whether an integer scalar is known to be a multiple of ``tile``."""
        match op:
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
