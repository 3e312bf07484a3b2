"""Loop nests: everything elementwise between two reductions in one, each value at the outermost loop it can live in."""

from __future__ import annotations

from dataclasses import dataclass, field

from portakern.emit.python_like import Expr
from portakern.ir.core import Arg, Op
from portakern.ir.tile import (
    Broadcast,
    Cast,
    Const,
    Coord,
    Dot,
    Kernel,
    Load,
    Mask,
    Permute,
    Reduce,
    Scan,
    Store,
    buffer_type,
    tile_type,
)

from . import words
from .regions import is_scalar, is_tile
from .values import ValueText


@dataclass
class Group:
    """Sinks that share one loop nest."""

    space: frozenset[str]
    sinks: list[Op] = field(default_factory=list)


class NestText(ValueText):
    """Prints the loop nests of the sinks: stores, reductions, and values that are kept in local arrays."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.groups: list[Group] = []
        self.in_place: dict[Op, Op] = {}

    def _flush(self) -> None:
        """Print the open loop nests."""
        groups, self.groups = self.groups, []
        for group in groups:
            self._print_group(group)

    def _print_group(self, group: Group) -> None:
        if not group.space:
            for sink in group.sinks:
                self._finish_scalar_sink(sink)
            return
        for sink in group.sinks:
            if not isinstance(sink, Store) and is_tile(sink) and sink not in self.locals:
                hint = self._local_hint(sink)
                self.locals[sink] = self._allocate(hint, tile_type(sink), self.regions.oriented.get(sink))
        order = self._order(group.space, group.sinks)
        self._nest_of(group, order)

    def _local_hint(self, op: Op) -> str:
        hint = self.hints.get(op) or self._hint(op)
        carried = op in self.hints or isinstance(op, Reduce | Dot)
        return hint if carried else f"{hint}_tile"

    def _finish_scalar_sink(self, sink: Op) -> None:
        if isinstance(sink, Store):
            self._store(sink, {})

    def _order(self, space: frozenset[str], sinks: list[Op]) -> list[str]:
        """Loop order: the axis that most accesses walk contiguously is innermost, stores counting double."""
        declared = [a.name for a in self.kernel.axes if a.name in space]
        votes = dict.fromkeys(declared, 0)
        for sink in sinks:
            for op in self.regions.closure(self.regions.inputs(sink)):
                if isinstance(op, Load):
                    self._vote(op, votes, 1)
            if isinstance(sink, Store):
                self._vote(sink, votes, 2)
        for sink in sinks:
            if not isinstance(sink, Store | Reduce) and sink in self.locals and self.locals[sink].axes:
                votes[self.locals[sink].axes[-1]] = votes.get(self.locals[sink].axes[-1], 0) + 1
        if not declared:
            return []
        inner = max(declared, key=lambda x: (votes[x], declared.index(x)))
        return [*(x for x in declared if x != inner), inner]

    def _vote(self, op: Load | Store, votes: dict[str, int], weight: int) -> None:
        strides = buffer_type(op.buffer).element_strides
        for index, stride in zip(op.indices, strides, strict=True):
            if stride == 1:
                for axis in index.axes:
                    if axis in votes:
                        votes[axis] += weight

    def _nest_of(self, group: Group, order: list[str]) -> None:
        """Loops over ``order`` with everything the sinks compute, each value at the outermost loop it can live in."""
        plan = Elements(self, group, order)
        reduces = [s for s in group.sinks if isinstance(s, Reduce)]
        inner = [r for r in reduces if r.axis == order[-1]]
        outer = [r for r in reduces if r.axis != order[-1]]
        for r in outer:
            self._start_array(r)
        self._walk(plan, order, 0, inner, group.sinks)

    def _walk(self, plan: Elements, order: list[str], depth: int, inner: list[Reduce], sinks: list[Op]) -> None:
        env = plan.env
        if depth == len(order) - 1:
            totals = {r: self._start_total(r) for r in inner}
            with self.out.block(self._for(order[depth])):
                plan.statements(depth + 1)
                for sink in sinks:
                    self._sink_element(sink, env, totals)
            for r, name in totals.items():
                if is_tile(r):
                    self.out.line(f"{self._element_of(self.locals[r])} = {name}")
                else:
                    self.scalars[r] = Expr(name)
            return
        with self.out.block(self._for(order[depth])):
            plan.statements(depth + 1)
            self._walk(plan, order, depth + 1, inner, sinks)

    def _start_total(self, r: Reduce) -> str:
        name = self._scalar_name(r) if is_scalar(r) else self.names.fresh("running")
        self.out.line(f"{name} = {words.identity(r.fn, tile_type(r).dtype)}")
        return name

    def _start_array(self, r: Reduce) -> None:
        """A reduction over an outer loop is summed into an array (a vector of lanes), which starts at the identity."""
        if r not in self.locals:
            self.locals[r] = self._allocate(self._hint(r), tile_type(r), None)
        axes = self._order(frozenset(tile_type(r).axes), [])
        with nest(self, axes):
            self.out.line(f"{self._element_of(self.locals[r])} = {words.identity(r.fn, tile_type(r).dtype)}")

    def _sink_element(self, sink: Op, env: dict[Op, Expr], totals: dict[Reduce, str]) -> None:
        if isinstance(sink, Store):
            self._store(sink, env)
        elif isinstance(sink, Reduce):
            kept = Expr(totals[sink]) if sink in totals else self._element_of(self.locals[sink])
            joined = words.accumulate(sink.fn, kept, self._compute_value(sink.x, env), tile_type(sink).dtype)
            self.out.line(f"{kept} = {joined}")
        else:
            value = env.get(sink) or self._compute(sink, env)
            self.out.line(f"{self._element_of(self.locals[sink])} = {value}")

    def _scalar_name(self, op: Op) -> str:
        target = self.in_place.get(op)
        if target is not None:
            return self.scalars[target].text
        return self.names.fresh(self.hints.get(op) or self._hint(op))

    def _store(self, op: Store, env: dict[Op, Expr]) -> None:
        assert isinstance(op.buffer, Arg)
        dtype = buffer_type(op.buffer).dtype
        target = self._place(op)
        value = self._stored_value(op.value, dtype, env)
        checks = self._checks(op)
        line = {"set": f"{target} = {value}", "add": f"{target} += {value}",
                "max": f"{target} = max({target}, {value})"}[op.mode]  # fmt: skip
        if checks is None:
            self.out.line(line)
            return
        with self.out.block(f"if {checks}:"):
            self.out.line(line)

    def _stored_value(self, value: Op, dtype: str, env: dict[Op, Expr]) -> Expr:
        """What is written to memory: bits straight from memory where nothing was computed, else converted."""
        if dtype not in words.HALF_FLOATS:
            return self._compute_value(value, env)
        bare = value
        while isinstance(bare, Permute | Broadcast | Mask) and bare not in env and bare not in self.regions.stored:
            bare = bare.x
        if isinstance(bare, Load) and bare not in env and bare not in self.regions.stored and self._checks(bare) is None:
            return self._place(bare)
        if isinstance(bare, Cast) and bare not in env and bare not in self.regions.stored and self._float32(bare.x):
            return words.to_memory(self._compute_value(bare.x, env), dtype)
        return words.to_memory(self._compute_value(value, env), dtype)

    def _float32(self, x: Op) -> bool:
        return tile_type(x).dtype in ("f32", *words.HALF_FLOATS)


class Elements:
    """Which values inside one loop nest are assigned to scalar locals, and at which depth."""

    def __init__(self, printer: ValueText, group: Group, order: list[str]) -> None:
        self.printer, self.order = printer, order
        self.env: dict[Op, Expr] = {}
        regions = printer.regions
        found: dict[Op, int] = {}

        self.deepest: dict[Op, int] = {}

        def visit(op: Op, depth: int) -> None:
            if not regions.virtual(op) and op not in group.sinks:
                return
            found[op] = found.get(op, 0) + 1
            self.deepest[op] = max(depth, self.deepest.get(op, 0))
            if found[op] == 1:
                for operand in op.gathers if isinstance(op, Load) else op.operands:
                    visit(operand, depth if isinstance(op, Broadcast) else self._depth(op))

        for sink in group.sinks:
            for v in regions.inputs(sink) if isinstance(sink, Store | Reduce | Scan) else (sink,):
                visit(v, len(order))
        position = {op: i for i, op in enumerate(printer.kernel.body.walk())}
        self.named: list[Op] = []
        self.weights: dict[Op, int] = {}
        for op in sorted((x for x in found if not isinstance(x, Reduce)), key=lambda x: position[x]):
            self.weights[op] = self._weight(op)
            if self._wants_name(op, found[op], group):
                self.named.append(op)
                self.weights[op] = 0

    def _wants_name(self, op: Op, uses: int, group: Group) -> bool:
        if isinstance(op, Broadcast | Permute | Mask | Coord | Const):
            return False
        hoisted = self._depth(op) < self.deepest[op] and self.weights[op] >= 1 and op not in group.sinks
        return uses > 1 or hoisted or (self.weights[op] > 7 and op not in group.sinks)

    def _weight(self, op: Op) -> int:
        """Operations in the expression of ``op`` down to loads, stored and named values."""
        inner = op.gathers if isinstance(op, Load) else op.operands
        own = 0 if isinstance(op, Broadcast | Permute | Mask | Cast | Load | Coord | Const) else 1
        return own + sum(self.weights.get(o, 0) for o in inner)

    def _depth(self, op: Op) -> int:
        """How many loops enclose the value; a broadcast does not repeat it."""
        if isinstance(op, Broadcast):
            op = op.x
        axes = tile_type(op).axes
        return max((self.order.index(a) + 1 for a in axes if a in self.order), default=0)

    def statements(self, depth: int) -> None:
        """Print the named values that live at ``depth``."""
        printer = self.printer
        for op in self.named:
            if self._depth(op) == depth and op not in self.env:
                value = printer._compute(op, self.env)
                if value.text.isidentifier():
                    self.env[op] = value
                    continue
                name = printer.names.fresh(printer._hint(op))
                printer.out.line(f"{name} = {value}")
                self.env[op] = Expr(name)


class nest:
    """Loops over some axes around what is written inside."""

    def __init__(self, printer: ValueText, axes: list[str]) -> None:
        self.printer, self.axes = printer, axes
        self.open: list = []

    def __enter__(self) -> None:
        for axis in self.axes:
            block = self.printer.out.block(self.printer._for(axis))
            block.__enter__()
            self.open.append(block)

    def __exit__(self, *error: object) -> None:
        while self.open:
            self.open.pop().__exit__(None, None, None)
