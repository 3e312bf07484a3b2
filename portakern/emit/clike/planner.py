"""Builds the plan of a kernel: walks its operations once, after layouts and regions are known."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

from portakern.dtypes import dtype as dtype_of
from portakern.emit.clike import plan as p
from portakern.emit.clike.dialect import Dialect
from portakern.emit.clike.expressions import LOGICAL, SELECT, Text, apply, constant
from portakern.emit.clike.layouts import Layouts, Place, dims_of, floating
from portakern.emit.clike.memory import Addresses, add, multiply, size_text
from portakern.emit.clike.names import Names
from portakern.emit.clike.operands import Operands
from portakern.emit.clike.regions import Regions, elementwise, nested_in
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern.ir.program import Program
from portakern.ir.size import Size, product

LONG = 70
"""An expression longer than this many characters gets a name of its own inside a map."""

_SHORT = {"add": "sum", "sub": "difference", "mul": "product", "div": "quotient", "max": "larger", "min": "smaller",
          "pow": "power", "and": "both", "or": "either"}  # fmt: skip


def build_plan(program: Program, dialect: Dialect) -> p.ProgramPlan:
    """The plan of every kernel of ``program``; the rules of :mod:`portakern.emit.clike.rules` must hold."""
    return p.ProgramPlan(program.name, tuple(Planner(k, dialect).plan() for k in program.kernels))


@dataclass
class _Expansion:
    """One map under construction: what it reads and the names inside it."""

    place: Place | None
    names: Names
    params: list[tuple[str, str]] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    by_arg: dict[str, str] = field(default_factory=dict)
    locals: list[tuple[str, str, str]] = field(default_factory=list)
    done: dict[Op, Text] = field(default_factory=dict)
    captured: bool = False
    members: frozenset[Op] = frozenset()


class Planner:
    """One kernel's plan.  Platforms may subclass it where data in the :class:`Dialect` is not enough."""

    def __init__(self, kernel: t.Kernel, dialect: Dialect) -> None:
        kernel = _reordered(kernel)
        self.kernel = kernel
        self.dialect = dialect
        self.loads = Operands(kernel)
        self.staged = self.loads.staged
        self.layouts = Layouts(kernel, self.loads.only_operand)
        self.regions = Regions(kernel, self.layouts)
        self.names = Names({x.name for x in self.layouts.layouts})
        self.params = self._parameters()
        self.pointers = {x.name for x in self.params if x.role == "array"}
        sizes = {q.source: q.name for q in self.params if q.role == "size"}
        self.addresses = Addresses(kernel, sizes)
        self.variable: dict[Op, str] = {q: name.name for q, name in zip(kernel.args, self.params, strict=False)}
        self.hints: dict[Op, str] = {}
        self.into: dict[Op, Op] = {}  # value -> carried argument whose variable it takes
        self.mutable: set[Op] = set()
        self.shared: list[p.Shared] = []
        self.operands: dict[tuple[Op, str, bool], p.Operand] = {}
        self.converted: list[dict[tuple[Op, Place], str]] = [{}]
        self.out: list[list[p.Statement]] = [[]]
        self.loops: list[t.For] = []
        self.pipelined = False  # whether the innermost loop begins with a barrier

    @property
    def warps(self) -> int:
        return self.kernel.schedule.warps

    @property
    def threads(self) -> int:
        return self.warps * self.dialect.subgroup

    # ---- the kernel as a whole

    def plan(self) -> p.KernelPlan:
        origins = self._origins()
        self._hint_names()
        self.block(self.kernel.body)
        body = [*origins, *self._lefts([a.name for a in self.kernel.axes if a.kind != "loop"]), *self.out[0]]
        return p.KernelPlan(
            self.kernel.name, self.kernel.family, tuple(self.params), tuple(self.layouts.layouts), tuple(self.shared),
            tuple(body), product(tuple(a.steps for a in self.kernel.grid)), self.warps, self.threads,
        )  # fmt: skip

    def _parameters(self) -> list[p.Param]:
        found: list[p.Param] = []
        for arg in self.kernel.args:
            scalar = isinstance(arg.type, t.TileType)
            dtype = arg.type.dtype  # type: ignore[attr-defined]
            found.append(p.Param(self.names.fresh(arg.name, arg.name + "_"), dtype, "scalar" if scalar else "array",
                                 arg in self.kernel.written, arg.name))
        return [*found, *(p.Param(self._size_name(s), "i64", "size", source=s) for s in self.kernel.sizes)]

    def _size_name(self, size: str) -> str:
        # Sizes keep their names in every expression: nothing else may have taken them.
        self.names.taken.add(size)
        return size

    def _origins(self) -> list[p.Statement]:
        """Where this block's tiles begin, from the linear block index: the last axis varies fastest."""
        grid = [a for a in self.kernel.grid if a.steps != 1]
        found: list[p.Statement] = []
        for a in self.kernel.axes:
            self.addresses.start[a.name] = Text("0")
            self.addresses.left_name[a.name] = self.names.fresh(f"{a.name}_left")
        block = Text(self.dialect.block)
        if len(grid) > 1 and not block.isidentifier():
            name = self.names.fresh("block_index")
            found.append(p.Scalar(name, "i64", block))
            block = Text(name)
        elif grid and not block.isidentifier():
            block = Text(f"int64_t({block})")
        inner: Size = 1
        for a in reversed(grid):
            index = block if inner == 1 else apply("13|{0} / {1}", block, size_text(inner))
            if a is not grid[0]:
                index = apply("13|{0} % {1}", index, size_text(a.steps))
            name = self.names.fresh(*([f"{a.name}0"] if a.tile > 1 else [a.name, f"{a.name}_index"]))
            self.addresses.start[a.name] = Text(name)
            what = f"first of {a.tile} coordinates along {a.name}" if a.tile > 1 else f"coordinate along {a.name}"
            found.append(p.Scalar(name, "i64", multiply(index, Text(str(a.tile))), note=what))
            inner = product((inner, a.steps))
        return found

    def _lefts(self, axes: list[str]) -> list[p.Statement]:
        found: list[p.Statement] = []
        for axis in axes:
            if axis in self.addresses.used_left:
                text = f"pk::left({size_text(self.kernel.axis[axis].extent)}, {self.addresses.start[axis]})"
                found.append(p.Scalar(self.addresses.left_name[axis], "i32", text,
                                      note=f"the last tile along {axis} may reach past the end"))
                self.addresses.used_left.discard(axis)
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

    def add(self, statement: p.Statement) -> None:
        self.out[-1].append(statement)

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

    def name(self, op: Op, *wishes: str) -> tuple[str, bool]:
        """The variable of ``op`` and whether it must be declared."""
        if op in self.into:
            self.variable[op] = self.variable[self.into[op]]
            return self.variable[op], False
        hint = self.hints.get(op)
        self.variable[op] = self.names.fresh(*([hint] if hint else []), *wishes)
        return self.variable[op], True

    def value(self, op: Op, place: Place | None) -> str:
        """The variable that holds ``op`` at ``place``, made now where it is not held yet."""
        if floating(op) and place is not None:
            return self.spread(op, place)
        if floating(op):
            expansion = _Expansion(None, self.names)
            return self.text(op, expansion)
        return self.at(op, place)

    def at(self, op: Op, place: Place | None) -> str:
        have = self.layouts.place(op)
        if have == place or have is None or place is None or self._same(have, place):
            return self.variable[op]
        for scope in self.converted:
            if (op, place) in scope:
                return scope[op, place]
        name = self.names.fresh(f"{self.variable[op]}_{place.layout.name.lower()}")
        self.add(p.Convert(name, t.tile_type(op).dtype, place, "relayout", self.variable[op]))
        self.converted[-1][op, place] = name
        return name

    def _same(self, a: Place, b: Place) -> bool:
        return self.dialect.plain_vectors and a.side == b.side != "tile" and a.size == b.size

    def spread(self, op: Op, place: Place, name: str = "", define: bool = True) -> str:
        """A tile of what is computed anew at each use: a constant everywhere, or coordinates."""
        name = name or self.names.fresh(self.hints.get(op, "constant" if isinstance(op, t.Broadcast) else "index"))
        if isinstance(op, t.Broadcast) and not dims_of(op.x):
            value = self.value(op.x, None)
            self.add(p.Fill(name, t.tile_type(op).dtype, place, value, define))
        else:
            self._map(op, name, place, frozenset(), define)
        return name

    # ---- elementwise regions

    def region(self, root: Op) -> None:
        place = self.layouts.place(root)
        members = frozenset(self.regions.members(root))
        dtype = t.tile_type(root).dtype
        if place is None:
            name, define = self.name(root, *self._wishes(root))
            expansion = _Expansion(None, self.names, members=members)
            text = self.text(root, expansion)
            for kind, local, inner in expansion.locals:
                self.add(p.Scalar(local, kind, inner))
            self.add(p.Scalar(name, dtype, text, define, root not in self.mutable, _note(root, members)))
            return
        name, define = self.name(root, *self._wishes(root))
        self._map(root, name, place, members, define, _note(root, members))

    def _map(self, root: Op, name: str, place: Place, members: frozenset[Op], define: bool,
             note: str = "") -> None:
        # Inside, every name of the kernel may be captured: a parameter hides none but its own argument, or a pointer.
        expansion = _Expansion(place, Names(self.names.taken), members=members)
        text = self.text(root, expansion)
        self.add(p.Map(name, t.tile_type(root).dtype, place, tuple(expansion.params), tuple(expansion.args),
                       tuple(expansion.locals), text, expansion.captured, define, note, define and self._once(root)))

    def _once(self, root: Op) -> bool:
        users = self.regions.uses.get(root, ())
        here = [u for u in users if isinstance(u, t.Store | t.Reduce) and self.regions.block[u] is self.regions.block.get(root)]
        return len(users) == len(here) == 1

    def _wishes(self, op: Op) -> list[str]:
        base = self._base(op)
        match op:
            case t.Unary(fn=fn):
                return [f"{fn}_{base}"]
            case t.Binary(fn="div", lhs=t.Reduce(fn="sum") as x, rhs=n) if floating(n) and x in self.variable:
                return [self.variable[x].replace("sum", "mean"), f"{base}_mean"]  # a sum over a count
            case t.Binary(fn="mul", lhs=x, rhs=y) if x is y:
                return [f"{base}_squared"]
            case t.Binary(fn=fn):
                return [f"{base}_{_SHORT.get(fn, fn)}"]
            case t.Cast(dtype=dtype):
                return [f"{base}_{dtype}"]
            case t.Mask():
                return [f"masked_{base}"]
            case t.Compare(fn=fn):
                return [f"{base}_{fn}"]
            case t.Select(yes=t.Const(value=value)) | t.Select(no=t.Const(value=value)) if abs(value) == math.inf:
                return [f"masked_{base}"]
            case t.Select(yes=t.Const(value=value)) | t.Select(no=t.Const(value=value)):
                return [f"{base}_or_{str(value).removesuffix('.0').replace('-', 'minus_')}"]
        return [f"{base}_value"]

    def _base(self, op: Op) -> str:
        """The short word for what ``op`` was made from."""
        while True:
            if isinstance(op, t.Load):
                return self.variable.get(op.buffer, "value")
            if op in self.variable:
                name = re.sub(r"^(masked|new)_|_(f64|f32|f16|bf16|tile)$", "", self.variable[op])
                return name if len(name) <= 12 else name.split("_")[-1]
            shaped = [x for x in op.operands if not floating(x)]
            if isinstance(op, t.Select):
                shaped = [x for x in (op.yes, op.no, op.condition) if not floating(x)]
            if not shaped:
                return _leaf(op)
            op = max(shaped, key=lambda x: len(dims_of(x)))

    def text(self, op: Op, e: _Expansion) -> Text:
        """The expression of ``op`` inside the map ``e``."""
        if op in e.done:
            return e.done[op]
        if not (op in e.members or floating(op)):
            return self._input(op, e)
        text = self._formula(op, e)
        uses = sum(u in e.members for u in self.regions.uses.get(op, ())) if op in e.members else 1
        if op in e.members and not isinstance(op, t.Broadcast) and (uses > 1 or (len(text) > LONG and uses == 1)):
            name = e.names.fresh(*self._local_wishes(op))
            e.locals.append((t.tile_type(op).dtype, name, text))
            text = Text(name)
        e.done[op] = text
        return text

    def _local_wishes(self, op: Op) -> list[str]:
        match op:
            case t.Unary(fn=fn):
                return [fn if fn not in ("neg", "not") else "negated", fn + "_value"]
            case t.Binary(fn=fn):
                return [_SHORT.get(fn, fn), _SHORT.get(fn, fn) + "_value"]
            case t.Cast(x=x, dtype=dtype):
                return [f"{self._base(x)}_{dtype}"]
            case t.Compare():
                return ["condition"]
            case t.Select():
                return ["chosen"]
        return ["value"]

    def _input(self, op: Op, e: _Expansion) -> Text:
        if e.place is None or not dims_of(op):
            e.captured = True
            return Text(self.variable[op])
        place = e.place
        if len(dims_of(op)) == 1 and place.side == "tile" and not (place.layout.rows == 1 and not place.layout.axes[0]):
            place = e.place.vector(dims_of(op)[0][0])
        arg = self.at(op, place)
        if arg not in e.by_arg:
            name = self._parameter(arg, e)
            e.by_arg[arg] = name
            e.params.append((t.tile_type(op).dtype, name))
            e.args.append(arg)
        e.done[op] = Text(e.by_arg[arg])
        return e.done[op]

    def _parameter(self, arg: str, e: _Expansion) -> str:
        """The name of an element of the tile ``arg``: the buffer's where it was loaded from one, else the tile's own."""
        short = arg.removesuffix("_tile")
        used = e.by_arg.values()
        if short != arg and short in self.pointers and short not in used:
            return short
        return arg if arg not in used else e.names.fresh(arg + "_")

    def _formula(self, op: Op, e: _Expansion) -> Text:
        d = self.dialect
        match op:
            case t.Const(value=value, dtype=dtype):
                return self.constant(value, dtype)
            case t.Extent(size=size, dtype=dtype):
                e.captured = e.captured or not isinstance(size, int)
                return constant(size, dtype) if isinstance(size, int) else self._integer(size_text(size), dtype)
            case t.Start(axis=axis, dtype=dtype):
                return self._start(axis, dtype, e)
            case t.Coord(axis=axis, dtype=dtype):
                start = self._start(axis, dtype, e)
                if not op.dims:
                    return start
                index = self._local_index(axis, e)
                return add(start, Text(f"int64_t({index})") if dtype == "i64" else index)
            case t.Broadcast(x=x):
                return self.text(x, e)
            case t.Unary(fn=fn, x=x):
                inner = self.text(x, e)
                if fn == "reciprocal":
                    return apply("13|{0} / {1}", constant(1, t.tile_type(op).dtype), inner)
                return apply(d.unary[fn], inner)
            case t.Binary(fn=fn, lhs=a, rhs=b):
                if fn == "add" and t.tile_type(op).dtype in ("i32", "i64"):
                    return add(self.text(a, e), self.text(b, e))
                table = LOGICAL if t.tile_type(op).dtype == "bool" and fn in LOGICAL else d.binary
                return apply(table[fn], self.text(a, e), self.text(b, e))
            case t.Compare(fn=fn, lhs=a, rhs=b):
                return apply(d.compare[fn], self.text(a, e), self.text(b, e))
            case t.Select(condition=c, yes=y, no=n):
                return apply(SELECT, self.text(c, e), self.text(y, e), self.text(n, e))
            case t.Cast(x=t.Extent(size=int() as size), dtype=dtype):
                return self.constant(size, dtype)
            case t.Cast(x=x, dtype=dtype):
                return self.cast(self.text(x, e), t.tile_type(x).dtype, dtype)
            case t.Bitcast(x=x, dtype=dtype):
                return Text(f"pk::bitcast<{d.type(dtype)}>({self.text(x, e)})")
            case t.Mask(x=x, axis=axis, value=value):
                e.captured = True
                inside = apply("10|{0} < {1}", self._local_index(axis, e), self.addresses.left(axis))
                return apply(SELECT, inside, self.text(x, e), self.constant(value, t.tile_type(op).dtype))
        op.fail("is not elementwise")

    def cast(self, inner: Text, source: str, target: str) -> Text:
        """``inner`` as another dtype; C++ conversions are the IR's (nearest even, truncation), save to bool."""
        if target == "bool":
            return apply("9|{0} != {1}", inner, constant(0, source if source in ("f64", "f32", "i32", "i64") else "f32"))
        return Text(f"{self.dialect.type(target)}({inner})")

    def constant(self, value: float | int | bool, dtype: str) -> Text:
        """A literal; types of which C++ has none are converted from f32, which holds all their values."""
        if dtype in ("f64", "f32", "bool") or dtype_of(dtype).is_int:
            return constant(value, dtype)
        return Text(f"{self.dialect.type(dtype)}({constant(value, 'f32')})")

    def _integer(self, text: Text, dtype: str) -> Text:
        return text if dtype == "i64" else Text(f"{self.dialect.type(dtype)}({text})")

    def _start(self, axis: str, dtype: str, e: _Expansion) -> Text:
        start = self.addresses.start[axis]
        if start == "0":
            return constant(0, dtype)
        e.captured = True
        return self._integer(start, dtype)

    def _local_index(self, axis: str, e: _Expansion) -> Text:
        """The parameter that holds the local row or column number along ``axis``."""
        assert e.place is not None
        layout = e.place.layout
        side = e.place.side if e.place.side != "tile" else "row" if layout.axes[0] == axis else "col"
        arg = self.dialect.word(f"{side}_index", layout.name)
        if arg not in e.by_arg:
            e.by_arg[arg] = e.names.fresh(side, f"{side}_in_tile")
            e.params.append(("i32", e.by_arg[arg]))
            e.args.append(arg)
        return Text(e.by_arg[arg])

    # ---- memory

    def on_Load(self, op: t.Load) -> None:
        if op in self.staged:
            if not self.loops:
                self._stage_now([op])
            return  # copied at the top of the loop
        buffer = self.variable[op.buffer]
        if not dims_of(op):
            access = self.addresses.access(op, buffer, ())
            name, define = self.name(op, f"{buffer}_value")
            self.add(p.Scalar(name, t.tile_type(op).dtype, f"*({access.origin})" if access.origin != buffer else f"*{buffer}",
                              define, constant=op not in self.mutable))
            return
        name, define = self.name(op, f"{buffer}_tile")
        place = self.layouts.place(op)
        assert place is not None
        self.add(p.LoadTile(name, t.tile_type(op).dtype, place, self.addresses.access(op, buffer, dims_of(op)), define))

    def on_Store(self, op: t.Store) -> None:
        place = self.layouts.place(op.value)
        dims = dims_of(op.value)
        if place is None and dims:
            place = self._any_place(dims)
        value = self.value(op.value, place)
        access = self.addresses.access(op, self.variable[op.buffer], dims)
        self.add(p.StoreTile(value, t.tile_type(op.value).dtype, place, access, op.mode))

    def _any_place(self, dims: t.Dims) -> Place:
        layout = self.layouts.ask(dims)
        self.names.taken.add(layout.name)
        return Place(layout)

    # ---- reductions and changes of layout

    def on_Reduce(self, op: t.Reduce) -> None:
        source = self.layouts.place(op.x) or self._any_place(dims_of(op.x))
        if source.side != "tile":
            source = self._any_place(dims_of(op.x))
        value = self.value(op.x, source)
        gone = "rows" if source.layout.axes[0] == op.axis else "cols"
        word = f"{'col' if gone == 'rows' else 'row'}_{op.fn}"
        name, define = self.name(op, word, f"{word}_{self._base(op.x)}")
        self.add(p.Reduce(name, t.tile_type(op).dtype, op.fn, gone, value, source, self.layouts.place(op), define))

    def on_Permute(self, op: t.Permute) -> None:
        if self.loads.only_operand(op):
            return
        place, source = self.layouts.place(op), self.layouts.place(op.x)
        if place is None or source is None or place == source:
            self.variable[op] = self.value(op.x, source)
            return
        name, define = self.name(op, f"{self._base(op.x)}_transposed")
        self.add(p.Convert(name, t.tile_type(op).dtype, place, "transpose", self.value(op.x, source), define))

    # ---- matrix products

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
            name, define = self.name(op, f"{self._base(op.lhs)}_{self._base(op.rhs)}")
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
        base = self.variable[op.buffer] if isinstance(op, t.Load) else self._base(op)
        name = self.names.fresh(self.dialect.operand.format(base=base))
        shared = p.Shared(name, t.tile_type(op).dtype, dims[0][1], dims[1][1], slots, role, transposed, why)
        self.shared.append(shared)
        return p.Operand(name, shared)

    def _stages(self, loads: list[Op], slots: int, slot: str, axis: str) -> list[p.Stage]:
        """The copies of ``loads`` to shared memory, once for each way in which they are read."""
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

    # ---- loops

    def on_For(self, op: t.For) -> None:
        axis = self.kernel.axis[op.axis]
        carried = [self._carry(op, i) for i in range(len(op.init))]
        begin, end = self._bounds(op, axis)
        var = self.names.fresh(*([f"{axis.name}0"] if axis.tile > 1 else [axis.name, f"{axis.name}_index"]))
        outer = self.addresses.start[axis.name]
        self.addresses.start[axis.name] = Text(var)
        self.loops.append(op)
        self.out.append([])
        self.converted.append({})
        was, self.pipelined = self.pipelined, False
        pipeline = self._copies(op, axis)
        self.block(op.body)
        self._hand_over(op, carried)
        self.pipelined = was
        self.converted.pop()
        body = self.out.pop()
        body = [*self._lefts([axis.name]), *body]
        self.loops.pop()
        self.addresses.start[axis.name] = outer
        note = f"{axis.tile} coordinates along {axis.name} at a time" if axis.tile > 1 else ""
        self.add(p.Loop(var, begin, end, axis.tile, tuple(body), pipeline, note))

    def _carry(self, op: t.For, i: int) -> str:
        """Declare the variable of a carried value with its init."""
        init, arg = op.init[i], op.body.args[i]
        place = self.layouts.place(arg)
        dtype = t.tile_type(arg).dtype
        wish = arg.name  # type: ignore[attr-defined]
        if init in self.mutable and init in self.variable and self.regions.users(init) == [op]:
            self.variable[arg] = self.variable[init]
        else:
            value = "" if floating(init) and place else self.value(init, place)
            self.variable[arg] = self.names.fresh(wish, f"{wish}_so_far")
            if place is None:
                self.add(p.Scalar(self.variable[arg], dtype, value, constant=False))
            elif floating(init):
                self.spread(init, place, self.variable[arg])
            else:
                self.add(p.Convert(self.variable[arg], dtype, place, "copy", value))
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
        values = [self.value(value, place) for _, value, place in moves]
        targets = {name for name, *_ in moves}
        for n, (value, (_, op_, _)) in enumerate(zip(values, moves, strict=True)):
            if value in targets and len(moves) > 1:
                values[n] = self.names.fresh(f"old_{value}")
                place = self.layouts.place(op_)
                dtype = t.tile_type(op_).dtype
                self.add(p.Convert(values[n], dtype, place, "copy", value) if place else p.Scalar(values[n], dtype, value))
        for (name, *_), value in zip(moves, values, strict=True):
            self.add(p.Assign(name, value))
        for i, name in enumerate(carried):
            self.results[op, i] = name

    @property
    def results(self) -> dict[tuple[Op, int], str]:
        return self.__dict__.setdefault("_results", {})

    def on_Result(self, op: Result) -> None:
        self.variable[op] = self.results[op.source, op.index]

    def on_Yield(self, op: Yield) -> None:
        pass

    def _bounds(self, op: t.For, axis: t.Axis) -> tuple[str, str]:
        begin, end = "0", str(size_text(axis.extent))
        if op.lo is not None:
            lo = self.value(op.lo, None)
            begin = f"int64_t({lo}) / {axis.tile} * {axis.tile}" if axis.tile > 1 else f"int64_t({lo})"
        if op.hi is not None:
            hi = self.value(op.hi, None)
            name = self.names.fresh(f"{axis.name}_end")
            self.add(p.Scalar(name, "i64", f"pk::min(int64_t({hi}), int64_t({end}))",
                              note="what lies beyond takes no part"))
            end = name
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
            self.pipelined = True
            return p.Pipeline(slots, self.names.fresh(f"stage_{axis.name}"), slot, tuple(stages))
        if self.dialect.synchronised:
            self.add(p.Sync("the previous step has read its operands"))
        for stage in self._stages(loads, 1, "0", axis.name):
            self.add(stage)
        if self.dialect.synchronised:
            self.add(p.Commit())
            self.add(p.Wait(0))
            self.add(p.Sync("this step's operands are complete"))
        self.pipelined = True
        return None


def _reordered(kernel: t.Kernel) -> t.Kernel:
    """``kernel`` with its buffers before its scalars, the order of parameters in every language."""
    if [isinstance(a.type, t.TileType) for a in kernel.args] == sorted(isinstance(a.type, t.TileType) for a in kernel.args):
        return kernel
    args = sorted(kernel.args, key=lambda a: isinstance(a.type, t.TileType))
    return replace(kernel, body=Block(tuple(args), kernel.body.ops))


def _note(root: Op, members: frozenset[Op]) -> str:
    """What the author of a kernel would say about a map: why it masks, why it guards."""
    match root:
        case t.Select(condition=t.Compare(fn="eq", lhs=x, rhs=bound), yes=zero, no=same) if x is same:
            if _constant(bound) == -math.inf and _constant(zero) == 0:
                return "nothing but -inf so far: shift by 0, since -inf - -inf would be NaN"
    masks = {(op.axis, op.value) for op in members if isinstance(op, t.Mask)}
    return "; ".join(f"beyond the end of {axis}: {value:g}" for axis, value in sorted(masks))


def _constant(op: Op) -> float | None:
    while isinstance(op, t.Broadcast):
        op = op.x
    return float(op.value) if isinstance(op, t.Const) else None


def _leaf(op: Op) -> str:
    """A word for a value made of constants."""
    for x in (op, *op.operands):
        if isinstance(x, t.Cast):
            x = x.x
        if isinstance(x, t.Extent | t.Const):
            return str(x.size if isinstance(x, t.Extent) else x.value).removesuffix(".0").replace("-", "minus_")
    return "value"
