"""One tile kernel as a ``@triton.jit`` function.

Grid axes are cut out of ``tl.program_id(0)``, tiles become ranges ``m``, ``n`` of coordinates, and a masked access is
written only where :meth:`Kernel.may_overrun` says that a tile may reach past its buffer. Static extents and tiles are
``tl.constexpr`` parameters named after their axis (``M``, ``BLOCK_M``), open dims 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    named_values,
    product,
    size_expr,
)
from portakern.errors import MissingRuleError
from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern.ir.size import Size
from portakern.ir.tile import (
    Axis,
    Binary,
    Bitcast,
    Broadcast,
    BufferType,
    Cast,
    Compare,
    Const,
    Coord,
    Dims,
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
    Term,
    TileType,
    Unary,
    buffer_type,
    identity,
    starts_anew,
    tile_type,
)

from . import expressions as words
from .descriptors import Block as Blocked
from .descriptors import find_blocks
from .rewrites import rewritten

RESERVED = ("tl", "triton", "torch", "range", "float", "min", "max", "pid", *words.HELPERS)
NARROW = 2**31 - 2**20
"""Extents up to here leave room for the last tile in a 32-bit coordinate."""


_JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True)
class Value:
    """Text of a tile and the axes its Triton tensor really has: '' is a dim of size 1, ``()`` a scalar.

    Triton broadcasts dims of size 1 and scalars by itself, so broadcasts are spelled out only where it does not.
    ``literal`` values are Python numbers.
    """

    expr: Expr
    have: tuple[str, ...] = ()
    literal: bool = False


@dataclass(frozen=True)
class KernelText:
    """The printed kernel: its name, text, run-time parameters in order, constexpr parameters with values, and the
    number of blocks as an expression over the open dims (``static`` where there are none).

    ``descriptors`` are those of the parameters that the host makes: name, array, its shape as the kernel sees it, and the
    shape of a block.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    constants: tuple[tuple[str, int], ...]
    blocks: str
    static: bool
    options: tuple[tuple[str, int], ...] = ()
    descriptors: tuple[tuple[str, str, BufferType, tuple[int, ...]], ...] = ()


@dataclass
class _Axis:
    """What the printer decided for one axis."""

    axis: Axis
    start: str = ""  # name of the first coordinate of the tile
    name: str = ""  # name of the coordinates
    wide: bool = False  # 64-bit coordinates


def print_kernel(kernel: Kernel) -> KernelText:
    """The Triton text of ``kernel``; raises :class:`MissingRuleError` for an operation without a rule."""
    return _Printer(rewritten(kernel)).run()


@dataclass
class _Printer:
    kernel: Kernel
    out: Writer = field(default_factory=Writer)
    values: dict[Op, Value] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kernel = self.kernel
        self.names = Names(RESERVED)
        self.sizes = {s: self.names.fresh(s) for s in kernel.sizes}
        self.blocks = find_blocks(kernel)
        self.names.taken |= {a.name for a in kernel.args if a.name.endswith("_desc")}  # the host's names of descriptors
        accesses = [op for op in kernel.body.walk() if isinstance(op, Load | Store)]
        pointed = {op.buffer for op in accesses if op not in self.blocks}
        described = {b.buffer: b for b in self.blocks.values()}
        self.descriptors = {a: (self.names.fresh(f"{a.name}_desc"), b) for a, b in described.items()}
        self.parameter = {a: self.names.fresh(f"{a.name}_ptr" if isinstance(a.type, BufferType) else a.name)
                          for a in kernel.args if a in pointed or a not in self.descriptors}  # fmt: skip
        self.function = self.names.fresh(f"{kernel.name}_kernel")
        self.named = named_values(kernel.body)
        self.users: dict[Op, list[Op]] = {}
        for op in kernel.body.walk():
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
        wide = self._wide_axes()
        self.axes = {a.name: _Axis(a, wide=a.name in wide) for a in kernel.axes}
        self.extents = {a.name: self.names.fresh(a.name.upper()) for a in kernel.axes if isinstance(a.extent, int)}
        self.tiles = {a.name: self.names.fresh(f"BLOCK_{a.name.upper()}") for a in kernel.axes}
        self.starts = {op.axis for op in kernel.body.walk() if isinstance(op, Start)}
        for a in self.axes.values():
            a.name = self.names.fresh(a.axis.name)
        for a in self.axes.values():
            a.start = a.name if a.axis.tile == 1 else self.names.fresh(f"{a.name}0")
        self.starts |= {a for b in self.blocks.values() for a in b.axes if a}
        self.spread = self._spread_axes(kernel.body)
        self.last_first = {a.name for a in kernel.grid if kernel.family == "attention" and self._ends_with(a)}

    def _wide_axes(self) -> set[str]:
        """Axes whose coordinates need 64 bits: longer than 32 bits can say, or stepping through a large buffer."""
        wide = {a.name for a in self.kernel.axes if not isinstance(a.extent, int) or a.extent > NARROW}
        for op in self.kernel.body.walk():
            if isinstance(op, Load | Store) and op not in self.blocks and buffer_type(op.buffer).wide:
                t = buffer_type(op.buffer)
                for index, stride in zip(op.indices, t.element_strides, strict=True):
                    wide |= {a for a in index.axes if stride != 1}
        return wide

    def _ends_with(self, axis: Axis) -> bool:
        """Whether later blocks along a grid axis walk farther."""
        ends = [op.hi for op in self.kernel.body.walk() if isinstance(op, For) and op.hi is not None]
        return any(isinstance(op, Start) and op.axis == axis.name for end in ends for op in _within(end))

    def _spread_axes(self, block: Block) -> set[str]:
        """Axes whose coordinates are written out one by one: those of pointers, masks and of the coordinates as values."""
        found: set[str] = set()
        for op in block.walk():
            if isinstance(op, Load | Store) and op not in self.blocks:
                found |= {a for i in op.indices for a in i.axes}
            elif isinstance(op, Coord | Mask):
                found.add(op.axis)
        return found

    # ---- the whole function

    def run(self) -> KernelText:
        static = all(isinstance(a.extent, int) for a in self.kernel.grid)
        walking = static and self._programs() > 0
        with self.out.block("HEAD"):
            if walking:
                self._walk_over_blocks()
            else:
                self._one_block()
        body = "\n".join(self.out.lines[1:]) + "\n"
        text = f"@triton.jit\n{self._head()}\n{body}"
        blocks = " * ".join(self._steps(a.axis, host=True) for a in self._grid_axes()) or "1"
        if walking:
            blocks = f"min({self._programs()}, {blocks})"
        given = (*(a.name if n in self.parameter.values() else n for a, n in self._arguments()), *self.kernel.sizes)
        made = tuple((name, b.buffer.name, buffer_type(b.buffer), b.shape) for name, b in self.descriptors.values())
        options = self._launch_options()
        return KernelText(self.function, text, given, self._constants(), blocks, static, options, made)

    def _one_block(self, pid: str = "") -> None:
        self._grid(pid)
        for a in self.axes.values():
            if a.axis.kind == "whole":
                self._coordinates(a)
        self._block(self.kernel.body)

    def _walk_over_blocks(self) -> None:
        self.out.comment("Each program takes one block after another; storing one overlaps with loading for the next.")
        blocks = " * ".join(self._steps(a.axis) for a in self._grid_axes())
        with self.out.block(f"for pid in tl.range(tl.program_id(0), {blocks}, tl.num_programs(0), flatten=True):"):
            self._one_block("pid")

    def _programs(self) -> int:
        """How many programs share the blocks of a product; 0: one block each."""
        asked = int(self.kernel.schedule.option("programs", 0)) if self.kernel.family == "contraction" else 0
        many = self._grid_axes()
        return 0 if self._pid_is_wide() or len(many) < 2 or not self.blocks else asked

    def _arguments(self) -> list[tuple[Arg, str]]:
        """The kernel's arguments with their names in its text: an array as a pointer, a descriptor or both."""
        found = []
        for a in self.kernel.args:
            found += [(a, self.parameter[a])] if a in self.parameter else []
            found += [(a, self.descriptors[a][0])] if a in self.descriptors else []
        return found

    def _head(self) -> str:
        scalars = {n: f"{n}: {words.DTYPE[a.type.dtype]}" for a, n in self._arguments() if isinstance(a.type, TileType)}
        typed = [scalars.get(n, n) for _, n in self._arguments()]
        typed += [f"{s}: tl.int64" for s in self.sizes.values()]
        constants = [f"{c}: tl.constexpr" for c, _ in self._constants()]
        writer = Writer()
        writer.line(f"def {self.function}({', '.join([*typed, *constants])}):")
        return "\n".join(writer.lines)

    def _constants(self) -> tuple[tuple[str, int], ...]:
        """Extents, then tiles, then the rest, each in the order of the axes."""
        order = [*self.extents.values(), *self.tiles.values(), *self.constants]
        return tuple((name, self.constants[name]) for name in dict.fromkeys(order) if name in self.constants)

    def _launch_options(self) -> tuple[tuple[str, int], ...]:
        schedule = self.kernel.schedule
        extra = [(k, int(v)) for k, v in schedule.options if k in ("waves_per_eu", "maxnreg") and int(v) > 0]
        return (("num_warps", schedule.warps), ("num_stages", schedule.stages), *extra)

    # ---- axes

    def _grid_axes(self) -> list[_Axis]:
        """Grid axes with more than one block; the others are at block 0."""
        return [self.axes[a.name] for a in self.kernel.grid if a.steps != 1]

    def _grid(self, walked: str = "") -> None:
        """``walked`` is the number of the block where a program has several."""
        many = self._grid_axes()
        first = walked or "tl.program_id(0)"
        pid = f"{first}.to(tl.int64)" if self._pid_is_wide() or (len(many) == 1 and many[0].wide) else first
        block: dict[str, str] = {}
        if len(many) == 1:
            block[many[0].axis.name] = pid
        elif many:
            if pid != "pid":
                self.out.line(f"pid = {pid}")
            block = self._cut(many)
        for axis in self.kernel.grid:
            self._coordinates(self.axes[axis.name], block.get(axis.name, "0"))

    def _cut(self, many: list[_Axis]) -> dict[str, str]:
        """Print how ``pid`` splits into one block number for each axis, the last axis fastest."""
        block: dict[str, str] = {}
        group = int(self.kernel.schedule.option("group_m", 0)) if self.kernel.family == "contraction" else 0
        swizzled = group > 1 and many[-2].axis.tile > 1 and many[-1].axis.tile > 1
        if self._takes_turns(many):
            self._turns(many, block)
            many = many[:-1]
            if len(many) == 1:
                block[many[0].axis.name] = "pid"
                return block
        rest = many
        for a in reversed(many[1:]):
            name = a.start if a.axis.tile == 1 else self.names.fresh(f"{a.axis.name}_block")
            steps = self._steps(a.axis)
            if a.axis.name in self.last_first:
                self.out.comment("Blocks that walk farthest start first.")
                self.out.line(f"{name} = {steps} - 1 - pid % {steps}")
            else:
                self.out.line(f"{name} = pid % {steps}")
            rest = rest[:-1]
            if len(rest) > 1:
                self.out.line(f"pid //= {steps}")
            block[a.axis.name] = name
        last = self._steps(many[1].axis)
        a = many[0]
        name = a.start if a.axis.tile == 1 else self.names.fresh(f"{a.axis.name}_block")
        self.out.line(f"{name} = pid // {last}")
        block[a.axis.name] = name
        if swizzled:
            self._swizzle(many[-2], many[-1], block, group)
        return block

    def _takes_turns(self, many: list[_Axis]) -> bool:
        """Whether blocks of several heads (all but the last grid axis) alternate, so that the longest walks start first."""
        heads = int(self.kernel.schedule.option("heads", 0))
        return heads > 1 and many[-1].axis.name in self.last_first and all(a.axis.tile == 1 for a in many[:-1])

    def _turns(self, many: list[_Axis], block: dict[str, str]) -> None:
        self.constants["HEADS"] = int(self.kernel.schedule.option("heads", 0))
        last = many[-1]
        name = block[last.axis.name] = self.names.fresh(f"{last.axis.name}_block")
        steps, heads = self._steps(last.axis), " * ".join(self._steps(a.axis) for a in many[:-1])
        self.out.comment("HEADS heads at a time, whose keys and values stay in the last-level cache; the longest walks first.")
        self.out.line(f"pid, {name} = tl.swizzle2d(pid // {steps}, pid % {steps}, {heads}, {steps}, HEADS)")
        self.out.line(f"{name} = {steps} - 1 - {name}")

    def _swizzle(self, m: _Axis, n: _Axis, block: dict[str, str], group: int) -> None:
        self.constants["GROUP"] = group
        rows, cols = block[m.axis.name], block[n.axis.name]
        self.out.comment("Walk the output in groups of GROUP block rows, so that both operands stay in the last-level cache.")
        self.out.line(f"{rows}, {cols} = tl.swizzle2d({rows}, {cols}, {self._steps(m.axis)}, {self._steps(n.axis)}, GROUP)")

    def _coordinates(self, a: _Axis, block: str = "") -> None:
        """Print the coordinates of an axis of the grid (from its block number) or of a whole axis."""
        axis, name = a.axis, a.name
        if axis.tile == 1:
            if block in ("", "0"):
                a.start = a.name = "0"
            elif block != name:
                self.out.line(f"{name} = {block}")
            return
        reach = f"tl.arange(0, {self._tile(axis)})"
        spread = axis.name in self.spread
        if block in ("", "0"):
            a.start = "0"
            if spread:
                self.out.line(f"{name} = {reach}")
            return
        wide = a.wide and ".to(tl.int64)" not in block and not self._pid_is_wide()
        start = f"{block}{'.to(tl.int64)' if wide else ''} * {self._tile(axis)}"
        if axis.name in self.starts:
            self.out.line(f"{a.start} = {start}")
            start = a.start
        if spread:
            self.out.line(f"{name} = {start} + {reach}")

    def _pid_is_wide(self) -> bool:
        """Whether block numbers need 64 bits: there are as many, or they are coordinates that step through a large buffer."""
        grid = self._grid_axes()
        return any(not isinstance(a.axis.steps, int) or a.axis.steps > NARROW or (a.wide and a.axis.tile == 1) for a in grid)

    def _tile(self, axis: Axis) -> str:
        name = self.tiles[axis.name]
        self.constants[name] = axis.tile
        return name

    def _extent(self, axis: Axis) -> Expr:
        if isinstance(axis.extent, int):
            name = self.extents[axis.name]
            self.constants[name] = axis.extent
            return Expr(name)
        return size_expr(axis.extent, self.sizes)

    def _steps(self, axis: Axis, host: bool = False) -> str:
        if axis.tile == 1:
            return self._extent_text(axis, host).at(12)
        tile = str(axis.tile) if host else self._tile(axis)
        return f"{'triton' if host else 'tl'}.cdiv({self._extent_text(axis, host)}, {tile})"

    def _extent_text(self, axis: Axis, host: bool) -> Expr:
        return size_expr(axis.extent) if host else self._extent(axis)

    # ---- statements

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
                    value = Value(Expr(self.assigned[op]), tile_type(op).axes)
                elif op in self.named:
                    name = self.names.fresh(self._hint(op))
                    self.out.line(f"{name} = {value.expr}")
                    value = Value(Expr(name), value.have)
                self.values[op] = value

    assigned: dict[Op, str] = field(default_factory=dict)

    def _hint(self, op: Op) -> str:
        hint = self.hints.get(op) or hint_of(op, lambda x: self.users.get(x, []))
        of_load = isinstance(op, Load) or (isinstance(op, Cast) and isinstance(op.x, Load))
        return f"{hint}_tile" if of_load and hint in self.names.taken else hint

    hints: dict[Op, str] = field(default_factory=dict)

    def _loop(self, loop: For) -> None:
        a = self.axes[loop.axis]
        carried = []
        for arg, init in zip(loop.body.args, loop.init, strict=True):
            goes_on = isinstance(init, Result) and isinstance(init.source, For) and len(self.users[init]) == 1
            name = self._full(init).text if goes_on else self.names.fresh(arg.name)  # type: ignore[attr-defined]
            if not goes_on:
                self.out.line(f"{name} = {self._full(init)}")
            carried.append(name)
            self.values[arg] = Value(Expr(name), tile_type(arg).axes)
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
                    self.values[user] = Value(Expr(name), tile_type(arg).axes)
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
            made = words.scan(op.fn, x, position, of.dtype, op.reverse)
            if op.exclusive:
                size = self._tile(self.kernel.axis[op.axis])
                nothing = words.constant(identity(op.fn, of.dtype), of.dtype)
                made = call("moved_on", made, nothing, size, str(position), str(op.reverse))
            if not anew:
                before = self._broadcast(self._get(op.carry), tile_type(op.carry).dims, of.dims)
                made = words.binary(_JOIN[op.fn], before.expr, made, of.dtype) or self._missing(op)
            name = self.names.fresh(f"running_{op.fn}")
            self.out.line(f"{name} = {made}")
            self.values[results[0]] = Value(Expr(name), of.axes)
        if 1 in results:
            total = words.reduce(op.fn, x, position, of.dtype) or self._missing(op)
            if not anew:
                total = words.binary(_JOIN[op.fn], self._full(op.carry), total, of.dtype) or total
            name = self.names.fresh("new_total")
            self.out.line(f"{name} = {total}")
            self.values[results[1]] = Value(Expr(name), tile_type(op.carry).axes)

    def _store(self, op: Store) -> None:
        dims = tile_type(op.value).dims
        if op in self.blocks:
            self._store_block(op, self.blocks[op])
            return
        value = self._get(op.value)
        mask = self._mask_text(op, dims)
        keywords = {"mask": mask} if mask else {}
        if op.mode == "set":
            pointer = self._pointer(op, dims)
            text = call("tl.store", pointer, value.expr, **keywords).text
            if (len(text) > self.out.width - 8 and value.expr.rank < 14) or len(value.expr.text) > 48:
                assert isinstance(op.buffer, Arg)
                name = self.names.fresh(op.buffer.name)
                self.out.line(f"{name} = {value.expr}")
                text = call("tl.store", pointer, name, **keywords).text
            self.out.line(text)
        else:
            self.out.line(call(f"tl.atomic_{op.mode}", self._pointer(op, dims), self._full(op.value), **keywords,
                               sem='"relaxed"').text)  # fmt: skip

    # ---- values

    def _get(self, op: Op) -> Value:
        if op not in self.values:
            if not isinstance(op, Arg | Result | Const | Extent | Coord | Start) and op in self.named:
                op.fail("is used before it is computed")
            self.values[op] = self._value(op)
        return self.values[op]

    def _scalar(self, op: Op) -> Expr:
        return self._get(op).expr

    def _value(self, op: Op) -> Value:
        match op:
            case Arg():
                return Value(Expr(self.parameter[op]))
            case Const(value=value, dtype=dtype):
                return Value(words.constant(value, dtype), (), True)
            case Extent(size=size):
                return Value(self._size(size), (), True)
            case Coord(axis=axis, dims=dims, dtype=dtype):
                return self._coordinate(self.axes[axis], dims, dtype)
            case Start(axis=axis):
                return Value(Expr(self.axes[axis].start), (), self.axes[axis].start == "0")
            case Load():
                return self._load(op)
            case Unary(fn=fn, x=x):
                v = self._tensor(x)
                return Value(words.UNARY[fn](v.expr, tile_type(x).dtype), v.have)
            case Binary(fn=fn, lhs=lhs, rhs=rhs):
                a, b = self._operands(op, lhs, rhs)
                if fn == "add" and b.literal and b.expr.text == "0":
                    return a
                made = words.binary(fn, a.expr, b.expr, tile_type(lhs).dtype)
                return Value(made or self._missing(op), _joined(a, b))
            case Compare(fn=fn, lhs=lhs, rhs=rhs):
                a, b = self._operands(op, lhs, rhs)
                return Value(infix(words.COMPARE[fn], a.expr, b.expr), _joined(a, b))
            case Select(condition=condition, yes=yes, no=no):
                c, (a, b) = self._get(condition), self._operands(op, yes, no)
                return Value(call("tl.where", c.expr, a.expr, b.expr), _joined(c, a, b))
            case Cast(x=x, dtype=dtype):
                return self._cast(self._get(x), tile_type(x).dtype, dtype)
            case Bitcast(x=x, dtype=dtype):
                v = self._tensor(x)
                return Value(Expr(f"{v.expr.at(14)}.to({words.DTYPE[dtype]}, bitcast=True)"), v.have)
            case Broadcast(x=x, dims=dims):
                return self._broadcast(self._get(x), tile_type(x).dims, dims)
            case Permute(x=x, axes=axes):
                return self._permute(x, axes)
            case Mask(x=x, axis=axis, value=value):
                v, dims = self._get(x), tile_type(x).dims
                inside = self._along(self._inside(self.axes[axis]), axis, dims)
                have = _joined(v, Value(inside, tuple(a if a == axis else "" for a, _ in dims)))
                return Value(call("tl.where", inside, v.expr, words.constant(value, tile_type(x).dtype)), have)
            case Reduce(fn=fn, x=x, axis=axis):
                dims = tile_type(x)
                made = words.reduce(fn, self._full(x), dims.axes.index(axis), dims.dtype)
                return Value(made or self._missing(op), dims.without(axis).axes)
            case Dot():
                return self._dot(op)
        return Value(self._missing(op))

    def _missing(self, op: Op) -> Expr:
        what = f"{op.mnemonic()} {getattr(op, 'fn', '')}".strip()
        raise MissingRuleError("Triton has no rule for", missing=(what,), where=str(op.loc or ""))

    def _operands(self, user: Op, *operands: Op) -> tuple[Value, ...]:
        """Values for an operation on several operands, of which at least one must be a tensor and not a number."""
        values = tuple(self._get(o) for o in operands)
        if getattr(user, "fn", "") == "pow":
            return tuple(map(self._tensor, operands))
        if all(v.literal for v in values):
            return (self._tensor(operands[0]), *values[1:])
        return values

    def _tensor(self, op: Op) -> Value:
        """The value as a tensor: a number becomes a scalar tensor of its dtype."""
        v = self._get(op)
        if not v.literal:
            return v
        return Value(call("tl.full", "()", v.expr, words.DTYPE[tile_type(op).dtype]))

    def _full(self, op: Op) -> Expr:
        """The value with all the dims of its type spelled out."""
        return self._spelled_out(self._get(op), tile_type(op))

    def _spelled_out(self, v: Value, t: TileType) -> Expr:
        if v.have == t.axes and not v.literal:
            return v.expr
        shape = ", ".join(self._tile(self.kernel.axis[a]) for a in t.axes)
        shape += "," if len(t.axes) == 1 else ""
        if v.have:
            return call("tl.broadcast_to", v.expr, shape.rstrip(","))
        if v.expr.text in ("0", "0.0") and t.dims:
            return call("tl.zeros", f"({shape})", words.DTYPE[t.dtype])
        return call("tl.full", f"({shape})", v.expr, words.DTYPE[t.dtype])

    def _coordinate(self, a: _Axis, dims: Dims, dtype: str) -> Value:
        literal = a.name == "0"
        expr = Expr(a.name)
        if not literal and a.wide and dtype == "i32":
            expr = Expr(f"{a.name}.to(tl.int32)")
        elif not literal and not a.wide and dtype == "i64":
            expr = Expr(f"{a.name}.to(tl.int64)")
        return Value(expr, tuple(x for x, _ in dims), literal)

    def _cast(self, v: Value, old: str, new: str) -> Value:
        if v.literal and "8" not in new:
            return v
        if new == "bool":
            return Value(infix("!=", v.expr, Expr("0")), v.have)
        return Value(Expr(f"{v.expr.at(14)}.to({words.DTYPE[new]})"), v.have)

    def _broadcast(self, v: Value, old: Dims, new: Dims) -> Value:
        if not v.have or len(old) == len(new):
            return v
        kept = [a for a, _ in old]
        picks = ", ".join(":" if a in kept else "None" for a, _ in new)
        return Value(Expr(f"{v.expr.at(14)}[{picks}]"), tuple(a if a in kept else "" for a, _ in new))

    def _permute(self, x: Op, axes: tuple[str, ...]) -> Value:
        have = tile_type(x).axes
        if not self._get(x).have or axes == have:
            return self._get(x)
        order = [] if len(axes) == 2 else [str(have.index(a)) for a in axes]
        return Value(call("tl.trans", self._full(x), *order), axes)

    def _dot(self, op: Dot) -> Value:
        lhs, acc = tile_type(op.lhs), tile_type(op.acc)
        if len(acc.dims) != 2:
            raise MissingRuleError("Triton contracts tiles of two dims",
                                   missing=(f"dot giving {acc}",), where=str(op.loc or ""))  # fmt: skip
        left, right = (op.lhs, op.rhs) if acc.axes[0] in lhs.axes else (op.rhs, op.lhs)
        a, b = self._oriented(left, (acc.axes[0], op.axis)), self._oriented(right, (op.axis, acc.axes[1]))
        arguments = [a, b]
        start = self._get(op.acc)
        if not (start.literal and start.expr.text in ("0", "0.0")):
            arguments.append(self._full(op.acc))
        keywords: dict[str, str] = {}
        if lhs.dtype in ("f32", "f64"):
            keywords["input_precision"] = f'"{op.precision}"'
        if op.precision == "fp8_fast":
            keywords["max_num_imprecise_acc"] = str(2**30)
        if acc.dtype != "f32":
            keywords["out_dtype"] = words.DTYPE[acc.dtype]
        return Value(call("tl.dot", *arguments, **keywords), acc.axes)

    def _oriented(self, op: Op, axes: tuple[str, str]) -> Expr:
        full = self._full(op)
        return full if tile_type(op).axes == axes else call("tl.trans", full)

    # ---- memory

    def _store_block(self, op: Store, block: Blocked) -> None:
        value = self._full(op.value)
        if not block.flat:
            value = Expr(f"{value.at(14)}.reshape({self._shape(block)})")
        if len(value.text) > 48:
            name = self.names.fresh(block.buffer.name)
            self.out.line(f"{name} = {value}")
            value = Expr(name)
        self.out.line(f"{self.descriptors[block.buffer][0]}.store([{self._corner(op, block)}], {value})")

    def _load_block(self, op: Load, block: Blocked) -> Value:
        axes = tuple(a for a in block.axes if a)
        text = f"{self.descriptors[block.buffer][0]}.load([{self._corner(op, block)}])"
        if not block.flat:
            shape = ", ".join(self._tile(self.kernel.axis[a]) for a in axes)
            text += f".reshape({shape})"
        return Value(Expr(text if axes == tile_type(op).axes else f"{text}.T"), tile_type(op).axes)

    def _corner(self, op: Load | Store, block: Blocked) -> str:
        """The first coordinates of a block; the copy engine counts in 32 bits."""
        parts = []
        for axis, index in zip(block.axes, op.indices, strict=True):
            wide = self._pid_is_wide() or any(self.axes[a].wide for a in index.axes)
            where = Expr(self.axes[axis].start) if axis else self._index(index, ())
            parts.append(f"{where.at(14)}.to(tl.int32)" if wide and where.text != "0" else where.text)
        return ", ".join(parts)

    def _shape(self, block: Blocked) -> str:
        return ", ".join(self._tile(self.kernel.axis[a]) if a else "1" for a in block.axes)

    def _load(self, op: Load) -> Value:
        if op in self.blocks:
            return self._load_block(op, self.blocks[op])
        mask = self._mask_text(op, op.dims)
        pointer = self._pointer(op, op.dims)
        have = tile_type(op).axes
        if not mask:
            return Value(call("tl.load", pointer), have)
        if op.pad is None:
            return Value(call("tl.load", pointer, mask=mask), have)
        pad = words.constant(op.pad, buffer_type(op.buffer).dtype)
        return Value(call("tl.load", pointer, mask=mask, other=pad), have)

    def _pointer(self, op: Load | Store, dims: Dims) -> Expr:
        """Base plus the offset along each buffer dim, scalar offsets first so that the base stays uniform."""
        assert isinstance(op.buffer, Arg)
        parts: list[tuple[bool, Expr]] = []
        gathers = op.gathers if isinstance(op, Load) else ()
        for position, index in enumerate(op.indices):
            coordinate = self._index(index, dims, gathers)
            stride = self._stride(op, position)
            if coordinate.text == "0":
                continue
            moves = any(a in index.axes for a, _ in dims) or index.gather >= 0
            offset = coordinate if stride.text == "1" else product([coordinate, *self._factors(op, position)])
            parts.append((moves, offset))
        result = Expr(self.parameter[op.buffer])
        for _, part in sorted(parts, key=lambda p: p[0]):
            result = infix("+", result, part)
        return result

    def _stride(self, op: Load | Store, position: int) -> Expr:
        return size_expr(buffer_type(op.buffer).element_strides[position], self.sizes)

    def _factors(self, op: Load | Store, position: int) -> list[Expr]:
        """The stride of a buffer dim: the extents of the axes behind it where it is their product, else a number."""
        t = buffer_type(op.buffer)
        if t.strides is None:
            names: list[Expr] = []
            for size, index in zip(t.shape[position + 1 :], op.indices[position + 1 :], strict=True):
                axis = index.plain
                if size == 1:
                    continue
                if axis is None or self.kernel.axis[axis].extent != size:
                    break
                names.append(self._extent(self.kernel.axis[axis]))
            else:
                return names
        return [self._stride(op, position)]

    def _index(self, index: Index, dims: Dims, gathers: tuple[Op, ...] = ()) -> Expr:
        """The coordinate along one buffer dim, shaped for a tile of ``dims``."""
        parts = [self._term(t, dims) for t in index.terms]
        parts = [p for p in parts if p.text != "0"]
        if index.gather >= 0:
            parts.append(self._fit(gathers[index.gather], dims))
        offset = index.offset
        if isinstance(offset, int) and offset < 0 and parts:
            return infix("-", _sum(parts), Expr(str(-offset)))
        if offset != 0:
            parts.append(size_expr(offset, self.sizes))
        return _sum(parts)

    def _term(self, term: Term, dims: Dims) -> Expr:
        a = self.axes[term.axis]
        expr = self._along(Expr(a.name), term.axis, dims) if a.axis.tile > 1 else Expr(a.name)
        if a.name == "0":
            return expr
        if term.div != 1:
            expr = infix("//", expr, Expr(str(term.div)))
        if term.mod:
            expr = infix("%", expr, Expr(str(term.mod)))
        return expr if term.scale == 1 else infix("*", expr, size_expr(term.scale, self.sizes))

    def _fit(self, op: Op, dims: Dims) -> Expr:
        v = self._get(op)
        return self._broadcast(v, tuple((a, n) for a, n in dims if a in tile_type(op).axes), dims).expr

    def _along(self, expr: Expr, axis: str, dims: Dims) -> Expr:
        """A one-dim expression over ``axis`` as a dim of a tile."""
        if len(dims) <= 1:
            return expr
        picks = ", ".join(":" if a == axis else "None" for a, _ in dims)
        return Expr(f"{expr.at(14)}[{picks}]")

    def _mask_text(self, op: Load | Store, dims: Dims) -> str:
        parts: list[Expr] = []
        over = set(self.kernel.may_overrun(op))
        shape = buffer_type(op.buffer).shape
        gathers = op.gathers if isinstance(op, Load) else ()
        for index, size in zip(op.indices, shape, strict=True):
            plain = index.plain
            # A store must leave what lies past the axis alone even where the buffer goes on there.
            ragged = [a for a in index.axes if self.kernel.axis[a].ragged and self.kernel.axis[a].tile > 1]
            masked = ragged if isinstance(op, Store) else [a for a in ragged if a == plain and a in over]
            exact = plain is not None and self.kernel.axis[plain].extent == size
            for axis in masked:
                parts.append(self._along(self._inside(self.axes[axis]), axis, dims))
            if not exact and (over & set(index.axes) or index.gather >= 0) and index.terms:
                if isinstance(op, Load):
                    parts = parts[: len(parts) - len(masked)]
                where = self._index(index, dims, gathers)
                if self._may_be_negative(index):
                    parts.append(infix(">=", where, Expr("0")))
                parts.append(infix("<", where, size_expr(size, self.sizes)))
        unique = list(dict.fromkeys(parts))
        result = unique[0] if unique else None
        for part in unique[1:]:
            assert result is not None
            result = infix("&", result, part)
        return result.text if result else ""

    def _may_be_negative(self, index: Index) -> bool:
        negative = [t for t in index.terms if not isinstance(t.scale, int) or t.scale < 0]
        return bool(negative) or index.gather >= 0 or not isinstance(index.offset, int) or index.offset < 0

    def _inside(self, a: _Axis) -> Expr:
        """The mask of coordinates within the extent of an axis."""
        return infix("<", Expr(a.name), self._extent(a.axis))

    def _size(self, size: Size) -> Expr:
        """The name of the only axis of this extent; of several it is not known which is meant, so a number says it."""
        alike = [a for a in self.kernel.axes if isinstance(size, int) and size > 1 and a.extent == size]
        return self._extent(alike[0]) if len(alike) == 1 else size_expr(size, self.sizes)


def _within(op: Op) -> Iterator[Op]:
    """A value and everything it is computed from."""
    yield op
    for operand in op.operands:
        yield from _within(operand)


def _sum(parts: list[Expr]) -> Expr:
    result = parts[0] if parts else Expr("0")
    for part in parts[1:]:
        result = infix("+", result, part)
    return result


def _joined(*values: Value) -> tuple[str, ...]:
    """The axes present in the broadcast of ``values``."""
    ranks = [v.have for v in values if v.have]
    if not ranks:
        return ()
    return tuple(next((h[i] for h in ranks if h[i]), "") for i in range(len(ranks[0])))

