"""One tile kernel as an ``@njit`` function of plain loops.

Grid axes become loops over blocks, the elements of a block are walked only as far as the array goes (so nothing is
masked), and everything elementwise between two reductions is one innermost loop over the axis that is contiguous in
memory, with scalar locals, which LLVM vectorises.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from portakern.emit.python_like import (
    Expr,
    Names,
    Writer,
    assigned_in_place,
    assignments,
    call,
    carried_hazard,
    hint_of,
    infix,
    size_expr,
    ternary,
    total,
)
from portakern.errors import MissingRuleError
from portakern.ir.core import Arg, Block, Op, Result, yielded
from portakern.ir.rewrite import canonicalise
from portakern.ir.size import Size
from portakern.ir.tile import (
    Axis,
    Binary,
    Bitcast,
    Broadcast,
    Cast,
    Compare,
    Const,
    Coord,
    Dot,
    Extent,
    For,
    Index,
    Kernel,
    Load,
    Mask,
    Permute,
    Reduce,
    Scan,
    Select,
    Start,
    Store,
    TileType,
    Unary,
    buffer_type,
    starts_anew,
    tile_type,
)

from . import numba_words as words
from .numba_regions import Regions, is_scalar, is_tile

RESERVED = ("np", "math", "njit", "prange", "intrinsic", "ir", "f32", "range", "min", "max", "abs", "block", *words.HELPERS)


@dataclass(frozen=True)
class KernelText:
    """The printed kernel: its name, text and the names of its parameters in order."""

    name: str
    text: str
    parameters: tuple[str, ...]


@dataclass
class _Axis:
    """Names of an axis in the text: coordinate, first of the tile, end of the tile."""

    axis: Axis
    name: str
    start: str = "0"
    end: str = ""


@dataclass(frozen=True)
class _Local:
    """A local array: its name and the axes of its dims."""

    name: str
    axes: tuple[str, ...]


@dataclass
class _Group:
    """Sinks that share one loop nest."""

    space: frozenset[str]
    sinks: list[Op] = field(default_factory=list)


def print_kernel(kernel: Kernel) -> KernelText:
    """The numba text of ``kernel``; raises :class:`MissingRuleError` for an operation without a rule."""
    return _Printer(canonicalise(kernel)).run()


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.regions = Regions(kernel)
        self.parallel = bool(kernel.schedule.option("parallel", False)) and _stores_disjoint(kernel)
        self.out = Writer(width=116)
        self.names = Names(RESERVED)
        self.function = self.names.fresh(f"{kernel.name}_kernel")
        for size in kernel.sizes:
            self.names.taken.add(size)
        self.parameter = {a: self.names.fresh(a.name) for a in kernel.args}
        self.axes = {a.name: _Axis(a, self.names.fresh(self._axis_name(a.name))) for a in kernel.axes}
        self.extent_names = {a.name: self.names.fresh(a.name.upper()) for a in kernel.axes if isinstance(a.extent, int)}
        self.tile_names = {a.name: self.names.fresh(f"BLOCK_{a.name.upper()}") for a in kernel.axes}
        self.constants: dict[str, int] = {}
        self.scalars: dict[Op, Expr] = {}
        self.locals: dict[Op, _Local] = {}
        self.allocated: list[str] = []
        self.in_place: dict[Op, Op] = {}
        self.hints: dict[Op, str] = {}
        self.groups: list[_Group] = []
        self.users: dict[Op, list[Op]] = {}
        for op in kernel.body.walk():
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)

    def _axis_name(self, name: str) -> str:
        """Axis names win over array names, which must then not be the same."""
        return name if name not in self.names.taken else f"i_{name}"

    # ---- the whole function

    def run(self) -> KernelText:
        for a in self.axes.values():
            if a.axis.kind == "whole":
                a.end = self._extent(a.axis).text
        with self.out.block("HEAD"):
            self._grid()
        body = self.out.lines[1:]
        head = Writer(width=116)
        flags = ", parallel=True" if self.parallel else ""
        head.line(f'@njit(error_model="numpy"{flags})')
        parameters = [*self.parameter.values(), *self.kernel.sizes]
        with head.block(f"def {self.function}({', '.join(parameters)}):"):
            for line in self._constant_lines():
                head.line(line)
        lines = [x for x in head.lines if x.strip() != "pass"]
        marker = next((i for i, x in enumerate(body) if x.strip() == "ALLOCATE"), None)
        if marker is not None:
            margin = body[marker][: len(body[marker]) - len(body[marker].lstrip())]
            body[marker : marker + 1] = [margin + x for x in self.allocated]
        given = (*(a.name for a in self.kernel.args), *self.kernel.sizes)
        return KernelText(self.function, "\n".join([*lines, *body]) + "\n", given)

    def _constant_lines(self) -> list[str]:
        order = [n for n in (*self.extent_names.values(), *self.tile_names.values()) if n in self.constants]
        extents = [n for n in order if n in self.extent_names.values()]
        tiles = [n for n in order if n not in extents]
        return [f"{', '.join(g)} = {', '.join(str(self.constants[n]) for n in g)}" for g in (extents, tiles) if g]

    def _extent(self, axis: Axis) -> Expr:
        if not isinstance(axis.extent, int):
            return size_expr(axis.extent)
        self.constants[self.extent_names[axis.name]] = axis.extent
        return Expr(self.extent_names[axis.name])

    def _tile(self, axis: Axis) -> str:
        self.constants[self.tile_names[axis.name]] = axis.tile
        return self.tile_names[axis.name]

    # ---- the grid

    def _grid(self) -> None:
        walked = [a for a in self.kernel.grid if a.steps != 1]
        for a in self.kernel.grid:
            if a.steps == 1:
                self._single(self.axes[a.name])
        if self.parallel and walked:
            self._parallel_grid(walked)
            return
        self.out.line("ALLOCATE")
        self._serial_grid(walked)

    def _single(self, a: _Axis) -> None:
        """An axis of one block starts at 0 and ends at its extent."""
        if a.axis.tile == 1:
            a.name = "0"
        else:
            a.end = self._extent(a.axis).text

    def _serial_grid(self, walked: list[Axis]) -> None:
        if not walked:
            self._block(self.kernel.body)
            self._flush()
            return
        a = self.axes[walked[0].name]
        if a.axis.tile == 1:
            with self.out.block(f"for {a.name} in range({self._extent(a.axis)}):"):
                self._serial_grid(walked[1:])
            return
        a.start = self.names.fresh(f"{a.name}0")
        with self.out.block(f"for {a.start} in range(0, {self._extent(a.axis)}, {self._tile(a.axis)}):"):
            self._tile_end(a)
            self._serial_grid(walked[1:])

    def _tile_end(self, a: _Axis) -> None:
        a.end = a.end or self.names.fresh(f"{a.name}1")
        if a.axis.ragged:
            self.out.line(f"{a.end} = min({a.start} + {self._tile(a.axis)}, {self._extent(a.axis)})")
        else:
            self.out.line(f"{a.end} = {a.start} + {self._tile(a.axis)}")

    def _parallel_grid(self, walked: list[Axis]) -> None:
        """One flat loop over all blocks, so that threads share the work whatever the axes' sizes."""
        blocks = [self._blocks(a) for a in walked]
        with self.out.block(f"for block in prange({' * '.join(b.at(12) for b in blocks)}):"):
            self.out.line("ALLOCATE")
            rest = "block"
            for position in range(len(walked) - 1, -1, -1):
                a, steps = self.axes[walked[position].name], blocks[position]
                number = rest if position == 0 else f"{rest} % {steps.at(12)}"
                scaled = number if a.axis.tile == 1 else f"{number} * {self._tile(a.axis)}"
                if a.axis.tile > 1:
                    a.start = self.names.fresh(f"{a.name}0")
                if position == 0 and rest != "block" and a.axis.tile == 1:
                    scaled = rest
                self.out.line(f"{a.name if a.axis.tile == 1 else a.start} = {scaled}")
                if position > 0:
                    after = self.names.fresh("rest")
                    self.out.line(f"{after} = {rest} // {steps.at(12)}")
                    rest = after
                if a.axis.tile > 1:
                    self._tile_end(a)
            self._block(self.kernel.body)
            self._flush()

    def _blocks(self, axis: Axis) -> Expr:
        extent = self._extent(axis)
        if axis.tile == 1:
            return extent
        tile = self._tile(axis)
        return infix("//", infix("-", infix("+", extent, Expr(tile)), Expr("1")), Expr(tile))

    # ---- statements

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
        self.groups.append(_Group(space, [op]))

    def _named_scalar(self, op: Op) -> None:
        name = self._scalar_name(op)
        self.out.line(f"{name} = {self._compute(op, {})}")
        self.scalars[op] = Expr(name)

    def _scalar_name(self, op: Op) -> str:
        target = self.in_place.get(op)
        if target is not None:
            return self.scalars[target].text
        return self.names.fresh(self.hints.get(op) or self._hint(op))

    def _hint(self, op: Op) -> str:
        return hint_of(op, lambda x: self.users.get(x, []))

    # ---- loops of the kernel

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
            first = self._typed(init)
            self.out.line(f"{name} = {first}")
            self.scalars[arg] = Expr(name)
            return
        self.names.taken.discard(name)
        self.locals[arg] = self._allocate(name, tile_type(arg), None)
        self._flush()
        self._elementwise_assign(arg, init)

    def _typed(self, op: Op) -> Expr:
        """A scalar in its own dtype: integer constants become 64-bit, which they are computed in."""
        return self._scalar(op)

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
        with _nest(self, axes):
            self.out.line(f"{self._element_of(self.locals[target])} = {self._compute_value(value, env)}")

    # ---- contractions

    def _dot(self, op: Dot) -> None:
        left, right = self.regions.operands(op)
        target = self.locals.get(op)
        if target is None:
            target = self.locals[op] = self._allocate(self.hints.get(op) or "product", tile_type(op), None)
        if self.locals.get(op.acc) != target:
            axes = self._order(frozenset(tile_type(op).axes), [])
            with _nest(self, axes):
                self.out.line(f"{self._element_of(target)} = {self._compute_value(op.acc, {})}")
        rows, cols = tile_type(op.acc).axes
        counts = [self._count(self.axes[x]) for x in (rows, cols, op.axis)]
        self.out.line(call("dot", target.name, self.locals[left].name, self.locals[right].name, *counts).text)

    # ---- running values

    def _scan(self, op: Scan) -> None:
        """A loop nest of its own, the scanned axis innermost, into a local array."""
        results = {u.index: u for u in self.users.get(op, []) if isinstance(u, Result)}
        of = tile_type(op.x)
        if 0 in results:
            self.locals[results[0]] = self._allocate(f"running_{op.fn}", of, None)
        if 1 in results and is_tile(op.carry):
            self.locals[results[1]] = self._allocate("new_total", tile_type(op.carry), None)
        order = [*(a for a in of.axes if a != op.axis), op.axis]
        self._scan_line(op, _Elements(self, _Group(frozenset(order), [op]), order), order, results)

    def _scan_line(self, op: Scan, plan: _Elements, order: list[str], results: dict[int, Result]) -> None:
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

    def _count(self, a: _Axis) -> str:
        """How many elements of the tile there are. A bare constant would be a type of its own to numba, and compile
        the callee once more."""
        if a.start != "0":
            return f"{a.end} - {a.start}"
        return f"np.int64({a.end})" if a.end in self.constants else a.end

    def _allocate(self, hint: str, of: TileType, axes: tuple[str, ...] | None) -> _Local:
        order = axes or of.axes
        name = self.names.fresh(hint)
        shape = ", ".join(self._tile(self.kernel.axis[x]) for x in order)
        shape = f"({shape})" if len(order) > 1 else shape
        self.allocated.append(f"{name} = np.empty({shape}, {words.NUMPY[of.dtype]})")
        return _Local(name, order)

    # ---- loop nests

    def _flush(self) -> None:
        """Print the open loop nests."""
        groups, self.groups = self.groups, []
        for group in groups:
            self._print_group(group)

    def _print_group(self, group: _Group) -> None:
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

    def _nest_of(self, group: _Group, order: list[str]) -> None:
        """Loops over ``order`` with everything the sinks compute, each value at the outermost loop it can live in."""
        plan = _Elements(self, group, order)
        reduces = [s for s in group.sinks if isinstance(s, Reduce)]
        inner = [r for r in reduces if r.axis == order[-1]]
        outer = [r for r in reduces if r.axis != order[-1]]
        for r in outer:
            self._start_array(r)
        self._walk(plan, order, 0, inner, group.sinks)

    def _walk(self, plan: _Elements, order: list[str], depth: int, inner: list[Reduce], sinks: list[Op]) -> None:
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

    def _for(self, axis: str, backwards: bool = False) -> str:
        a = self.axes[axis]
        if backwards:
            return f"for {a.name} in range({a.end} - 1, {a.start} - 1, -1):"
        return f"for {a.name} in range({a.end}):" if a.start == "0" else f"for {a.name} in range({a.start}, {a.end}):"

    def _start_total(self, r: Reduce) -> str:
        name = self._scalar_name(r) if is_scalar(r) else self.names.fresh("running")
        self.out.line(f"{name} = {words.identity(r.fn, tile_type(r).dtype)}")
        return name

    def _start_array(self, r: Reduce) -> None:
        """A reduction over an outer loop is summed into an array (a vector of lanes), which starts at the identity."""
        if r not in self.locals:
            self.locals[r] = self._allocate(self._hint(r), tile_type(r), None)
        axes = self._order(frozenset(tile_type(r).axes), [])
        with _nest(self, axes):
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

    # ---- elements

    def _compute_value(self, op: Op, env: dict[Op, Expr]) -> Expr:
        """An element of ``op`` at the loop variables: its name, its array's element or its expression."""
        if op in env:
            return env[op]
        if op in self.locals:
            return self._element_of(self.locals[op])
        if is_scalar(op):
            return self._scalar(op)
        return self._compute(op, env)

    def _scalar(self, op: Op) -> Expr:
        if op in self.scalars:
            return self.scalars[op]
        if isinstance(op, Arg):
            return Expr(self.parameter[op])
        return self._compute(op, {})

    def _element_of(self, local: _Local) -> Expr:
        return Expr(f"{local.name}[{', '.join(self._local_index(x) for x in local.axes)}]")

    def _local_index(self, axis: str) -> str:
        a = self.axes[axis]
        return a.name if a.start == "0" else f"{a.name} - {a.start}"

    def _compute(self, op: Op, env: dict[Op, Expr]) -> Expr:
        def value(x: Op) -> Expr:
            return self._compute_value(x, env)

        match op:
            case Const(value=number, dtype=dtype):
                return words.constant(number, dtype)
            case Extent(size=size):
                return self._size(size)
            case Coord(axis=axis):
                return Expr(self.axes[axis].name)
            case Start(axis=axis):
                a = self.axes[axis]
                return Expr(a.name if a.axis.tile == 1 else a.start)
            case Load():
                return self._load(op, env)
            case Unary(fn=fn, x=x):
                return words.UNARY[fn](value(x), tile_type(x).dtype)
            case Binary(fn=fn, lhs=lhs, rhs=rhs):
                left, right = value(lhs), value(rhs)
                if fn == "add" and right.text == "0":
                    return left
                made = words.binary(fn, left, right, tile_type(lhs).dtype)
                if made is None:
                    raise MissingRuleError("numba has no rule for", missing=(f"binary {fn}",), where=str(op.loc or ""))
                return made
            case Compare(fn=fn, lhs=lhs, rhs=rhs):
                return infix(words.COMPARE[fn], value(lhs), value(rhs))
            case Select(condition=condition, yes=yes, no=no):
                return ternary(value(condition), value(yes), value(no))
            case Cast(x=x, dtype=dtype):
                return self._cast(value(x), tile_type(x).dtype, dtype)
            case Bitcast(x=x, dtype=dtype):
                return Expr(f"{words.NUMPY[tile_type(x).dtype]}({value(x)}).view({words.NUMPY[dtype]})")
            case Broadcast(x=x) | Permute(x=x) | Mask(x=x):
                return value(x)
        raise MissingRuleError("numba has no rule for", missing=(op.mnemonic(),), where=str(op.loc or ""))

    def _cast(self, x: Expr, old: str, new: str) -> Expr:
        if old == new:
            return x
        if new in words.HALF_FLOATS:
            narrow = x if old in ("f32", *words.HALF_FLOATS) else words.scalar(x, "f32")
            return call(f"round_{new}", narrow)
        if new == "bool":
            return infix("!=", x, Expr("0"))
        if new == "f32" and old in words.HALF_FLOATS:
            return x
        return words.scalar(x, new)

    def _load(self, op: Load, env: dict[Op, Expr]) -> Expr:
        dtype = buffer_type(op.buffer).dtype
        element = words.from_memory(self._place(op, env), dtype)
        checks = self._checks(op, env)
        if checks is None:
            return element
        pad = words.constant(op.pad if op.pad is not None else 0, dtype)
        return ternary(Expr(checks, 3), element, pad)

    def _place(self, op: Load | Store, env: dict[Op, Expr] | None = None) -> Expr:
        """The element of the buffer an access touches."""
        assert isinstance(op.buffer, Arg)
        indices = [self._index(i, op, env) for i in op.indices]
        return Expr(f"{self.parameter[op.buffer]}[{', '.join(map(str, indices)) or '()'}]")

    def _index(self, index: Index, op: Load | Store, env: dict[Op, Expr] | None) -> Expr:
        parts: list[Expr] = []
        for term in index.terms:
            expr = Expr(self.axes[term.axis].name)
            if term.div != 1:
                expr = infix("//", expr, Expr(str(term.div)))
            if term.mod:
                expr = infix("%", expr, Expr(str(term.mod)))
            if term.scale != 1 and expr.text != "0":
                expr = infix("*", expr, size_expr(term.scale))
            if expr.text != "0":
                parts.append(expr)
        if index.gather >= 0 and isinstance(op, Load):
            parts.append(self._compute_value(op.gathers[index.gather], env or {}))
        if isinstance(index.offset, int) and index.offset < 0 and parts:
            return infix("-", total(parts), Expr(str(-index.offset)))
        if index.offset != 0:
            parts.append(size_expr(index.offset))
        return total(parts)

    def _checks(self, op: Load | Store, env: dict[Op, Expr] | None = None) -> str | None:
        """The condition under which an access is inside its buffer, where walking within the extents does not say so."""
        over = set(self.kernel.may_overrun(op))
        found: list[str] = []
        for index, size in zip(op.indices, buffer_type(op.buffer).shape, strict=True):
            plain = index.plain
            if plain is not None and self.kernel.axis[plain].extent == size:
                continue
            if over & set(index.axes) or index.gather >= 0:
                found.append(f"0 <= {self._index(index, op, env).at(6)} < {size_expr(size).at(6)}")
        return " and ".join(found) or None

    def _size(self, size: Size) -> Expr:
        """The name of the only axis of this extent; of several it is not known which is meant, so a number says it."""
        alike = [a for a in self.kernel.axes if isinstance(size, int) and size > 1 and a.extent == size]
        return self._extent(alike[0]) if len(alike) == 1 else size_expr(size)


class _Elements:
    """Which values inside one loop nest are assigned to scalar locals, and at which depth."""

    def __init__(self, printer: _Printer, group: _Group, order: list[str]) -> None:
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

    def _wants_name(self, op: Op, uses: int, group: _Group) -> bool:
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


class _nest:
    """Loops over some axes around what is written inside."""

    def __init__(self, printer: _Printer, axes: list[str]) -> None:
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


def _stores_disjoint(kernel: Kernel) -> bool:
    return all(op.mode == "set" for op in kernel.body.walk() if isinstance(op, Store))

