"""The text of one kernel.

A value that is used once and computed elementwise is written where it is used; loads, reductions, contractions and
values used more than once get a local array.  Inside a loop over a tile, the element of the tile is named by the axes'
own names: ``x_tile[n]`` is the element at coordinate ``n0 + n``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern_c import rules

ELEMENTWISE = (t.Const, t.Extent, t.Start, t.Coord, t.Unary, t.Binary, t.Compare, t.Select, t.Cast, t.Broadcast, t.Permute,
               t.Mask)


def number(value: float | int | bool, dtype: str) -> str:
    """A constant of ``dtype``."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "bf16":
        return f"f32_to_bf16({number(value, 'f32')})"
    if dtype in ("f32", "f64"):
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        return f"{float(value)!r}{'f' if dtype == 'f32' else ''}"
    # The least integer has no literal of its own.
    return str(int(value)) if int(value) > -(2**31) else f"(-{-(int(value) + 1)}{'LL' if dtype == 'i64' else ''} - 1)"


def bare(text: str) -> str:
    """``text`` without parentheses around all of it."""
    while text.startswith("(") and closing(text) == len(text) - 1:
        text = text[1:-1]
    return text


def closing(text: str) -> int:
    """Where the parenthesis closes that ``text`` starts with."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place
    return -1


def grouped(text: str) -> str:
    """``text`` as a factor."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def size_text(size: object) -> str:
    text = str(size).replace("//", "/")
    return text if text.isalnum() else f"({text})"


class KernelText:
    """Prints one kernel."""

    def __init__(self, kernel: t.Kernel) -> None:
        self.kernel = kernel
        self.names: dict[Op, str] = {}
        self.carried: dict[tuple[Op, int], str] = {}  # what a loop leaves behind
        self.taken: Counter[str] = Counter({a.name: 1 for a in (*kernel.args, *kernel.axes)})
        self.lines: list[str] = []
        self.depth = 1
        self.uses = Counter(o for op in kernel.body.walk() for o in op.operands)
        for op in kernel.body.walk():
            if isinstance(op, t.For):
                self.uses.update(yielded(op.body))

    def text(self) -> str:
        grid = [f"int64_t first_{a.name}" for a in self.kernel.grid]
        sizes = [f"int64_t {name}" for name in self.kernel.sizes]
        parameters = ", ".join([*grid, *map(self.parameter, self.kernel.args), *sizes])
        for arg in self.kernel.args:
            self.names[arg] = arg.name
        self.block(self.kernel.body)
        body = "\n".join(self.lines)
        tiles = ", ".join(f"{a.name} by {a.tile}" for a in self.kernel.grid) or "one block"
        return f"// One block of the grid ({tiles}).\nstatic void {self.kernel.name}_block({parameters}) {{\n{body}\n}}\n"

    def parameter(self, arg: Arg) -> str:
        if isinstance(arg.type, t.TileType):
            return f"{rules.TYPES[arg.type.dtype]} {arg.name}"
        const = "" if arg in self.kernel.written else "const "
        return f"{const}{rules.TYPES[t.buffer_type(arg).dtype]}* restrict {arg.name}"

    # ---- lines and names

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        self.line(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loops(self, dims: Iterable[t.Dim]) -> Iterator[None]:
        """A loop per dim whose variable is the axis's name."""
        depth = self.depth
        for axis, tile in dims:
            self.line(f"for (int {axis} = 0; {axis} < {tile}; ++{axis})")
            self.depth += 1
        yield
        self.depth = depth

    def fresh(self, hint: str) -> str:
        self.taken[hint] += 1
        return hint if self.taken[hint] == 1 else f"{hint}_{self.taken[hint]}"

    def declare(self, op: Op, of: t.TileType, hint: str, value: str) -> str:
        """A local that holds ``value`` at every element; ``op`` is known by its name from here on."""
        name = self.names[op] = self.fresh(hint)
        if not of.dims:
            self.line(f"{rules.TYPES[of.dtype]} {name} = {bare(value)};")
            return name
        self.line(f"{rules.TYPES[of.dtype]} {name}[{of.count}];")
        with self.loops(of.dims):
            self.line(f"{self.element(name, of)} = {bare(value)};")
        return name

    @staticmethod
    def element(name: str, of: t.TileType) -> str:
        """The current element of a local array, row-major in the order of its dims."""
        if not of.dims:
            return name
        text = ""
        for axis, tile in of.dims:
            text = f"({text}) * {tile} + {axis}" if "+" in text else f"{text} * {tile} + {axis}" if text else axis
        return f"{name}[{text}]"

    # ---- statements

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.statement(op)

    def statement(self, op: Op) -> None:
        match op:
            case Yield() | Result():
                return
            case t.Store():
                self.store(op)
            case t.For():
                self.loop(op)
            case t.Reduce():
                self.reduce(op)
            case t.Dot():
                self.dot(op)
            case t.Load():
                self.assign(op, f"{op.buffer.name}_tile", lambda: self.loaded(op))  # type: ignore[attr-defined]
            case _ if isinstance(op, ELEMENTWISE) and (self.uses[op] <= 1 or not op.operands):
                return  # written where it is used
            case _:
                hint = getattr(op, "fn", op.mnemonic())
                self.assign(op, f"{hint}_" if hint in ("exp", "log", "sin", "cos", "pow", "abs") else hint,
                            lambda: self.computed(op))

    def assign(self, op: Op, hint: str, value: Callable[[], str]) -> None:
        self.declare(op, t.tile_type(op), hint, value())

    def store(self, op: t.Store) -> None:
        value, of = self.value(op.value), t.tile_type(op.value)
        place = f"{self.names[op.buffer]}[{self.address(op)}]"
        with self.loops(of.dims):
            inside = self.inside(op)
            guard = f"if ({inside}) " if inside else ""
            if op.mode == "set":
                self.line(f"{guard}{place} = {bare(value)};")
            else:
                rule = self.binary("add" if op.mode == "add" else "max", of.dtype, place, value)
                self.line(f"{guard}{place} = {rule};")

    def loop(self, op: t.For) -> None:
        """A walk along an axis; what it carries is updated in place once every next value is known."""
        axis = self.kernel.axis[op.axis]
        for number_, (init, arg) in enumerate(zip(op.init, op.body.args, strict=True)):
            self.declare(arg, t.tile_type(arg), f"carried{number_ or ''}", self.value(init))
        start = f"first_{op.axis}"
        first = "0" if op.lo is None else f"({self.value(op.lo)}) / {axis.tile} * {axis.tile}"
        end = size_text(axis.extent)
        bound = f"{start} < {end}" + (f" && {start} < ({self.value(op.hi)})" if op.hi is not None else "")
        with self.braces(f"for (int64_t {start} = {first}; {bound}; {start} += {axis.tile})"):
            self.block(op.body)
            following = []
            for arg, value in zip(op.body.args, yielded(op.body), strict=True):
                of = t.tile_type(arg)
                following.append((self.names[arg], self.kept(value), of))
            for carried, name, of in following:
                with self.loops(of.dims):
                    self.line(f"{self.element(carried, of)} = {self.element(name, of)};")
        for place, arg in enumerate(op.body.args):
            self.carried[op, place] = self.names[arg]

    def kept(self, op: Op) -> str:
        """The name of a value, which gets one if it has none."""
        if isinstance(op, Result):
            return self.carried[op.source, op.index]
        if op not in self.names:
            self.assign(op, "next", lambda: self.computed(op))
        return self.names[op]

    def reduce(self, op: t.Reduce) -> None:
        of, source = t.tile_type(op), t.tile_type(op.x)
        text = self.value(op.x)
        start, fn = rules.REDUCE[op.fn]
        if start.endswith("INFINITY") and of.dtype not in ("f32", "f64"):
            start = {"i64": "INT64", "i32": "INT32", "i16": "INT16", "i8": "INT8", "u8": "UINT8"}[of.dtype]
            start = "0" if start == "UINT8" and op.fn == "max" else f"{start}_{'MIN' if op.fn == 'max' else 'MAX'}"
        name = self.declare(op, of, f"row_{op.fn}" if not of.dims else op.fn, start)
        with self.loops(source.dims):
            place = self.element(name, of)
            self.line(f"{place} = {self.binary(fn, of.dtype, place, text)};")

    def dot(self, op: t.Dot) -> None:
        of, lhs = t.tile_type(op), t.tile_type(op.lhs)
        acc, a, b = self.value(op.acc), self.value(op.lhs), self.value(op.rhs)
        name = self.declare(op, of, "product", acc)
        wide = "(double)" if of.dtype == "f64" else "(int32_t)" if of.dtype == "i32" else ""
        # The contracted axis goes around the last one, so that the inner loop runs along memory.
        axis = (op.axis, lhs.size(op.axis))
        with self.loops([*of.dims[:-1], axis, *of.dims[-1:]]):
            left, right = (self.widened(x, t.tile_type(o).dtype) for x, o in ((a, op.lhs), (b, op.rhs)))
            self.line(f"{self.element(name, of)} += {wide}{left} * {wide}{right};")

    @staticmethod
    def widened(text: str, dtype: str) -> str:
        return f"bf16_to_f32({text})" if dtype == "bf16" else f"({text})" if " " in text else text

    # ---- values at the current element

    def value(self, op: Op) -> str:
        """The current element of ``op``, named or written out."""
        if isinstance(op, Result):
            return self.element(self.carried[op.source, op.index], t.tile_type(op))
        name = self.names.get(op)
        if name is not None:
            return self.element(name, t.tile_type(op))
        return self.computed(op)

    def computed(self, op: Op) -> str:
        of = t.tile_type(op)
        match op:
            case t.Const():
                return number(op.value, op.dtype)
            case t.Extent():
                return f"({rules.TYPES[op.dtype]}){size_text(op.size)}"
            case t.Start():
                return f"({rules.TYPES[op.dtype]}){self.start(op.axis)}"
            case t.Coord():
                return f"({rules.TYPES[op.dtype]})({self.coordinate(op.axis, of)})"
            case t.Unary():
                table = rules.UNARY if t.tile_type(op.x).dtype in ("f32", "f64") else rules.INTEGER_UNARY
                rule = "!{x}" if t.tile_type(op.x).dtype == "bool" else table[op.fn]
                called = "({x})" in rule
                text = rule.format(x=bare(self.value(op.x)) if called else self.atom(op.x), f=self.f(op.x))
                return text if called and text.endswith(")") and "/" not in rule else f"({text})"
            case t.Binary():
                return f"({self.binary(op.fn, of.dtype, self.atom(op.lhs), self.atom(op.rhs))})"
            case t.Compare():
                return f"({self.atom(op.lhs)} {rules.COMPARE[op.fn]} {self.atom(op.rhs)})"
            case t.Select():
                return f"({self.value(op.condition)} ? {self.value(op.yes)} : {self.value(op.no)})"
            case t.Mask():
                inside = f"{self.coordinate(op.axis, of)} < {size_text(self.kernel.axis[op.axis].extent)}"
                return f"({inside} ? {self.value(op.x)} : {number(op.value, of.dtype)})"
            case t.Cast():
                return self.cast(self.value(op.x), t.tile_type(op.x).dtype, op.dtype)
            case t.Broadcast() | t.Permute():
                return self.value(op.x)  # elements are found by axis names, so order and repetition cost nothing
        raise NotImplementedError(op.mnemonic())

    def atom(self, op: Op) -> str:
        text = self.value(op)
        return f"({text})" if text.startswith("-") else text

    def f(self, op: Op) -> str:
        return "f" if t.tile_type(op).dtype == "f32" else ""

    @staticmethod
    def binary(fn: str, dtype: str, a: str, b: str) -> str:
        table = rules.BOOL_BINARY if dtype == "bool" else rules.BINARY if dtype in ("f32", "f64") else rules.INTEGER_BINARY
        return table[fn].format(a=a, b=b, f="f" if dtype == "f32" else "")

    @staticmethod
    def cast(text: str, source: str, to: str) -> str:
        if source == to:
            return text
        if source == "bf16":
            wide = f"bf16_to_f32({bare(text)})"
            return wide if to == "f32" else KernelText.cast(wide, "f32", to)
        if to == "bf16":
            return f"f32_to_bf16({bare(text)})"
        return f"({rules.TYPES[to]}){text if text.isidentifier() or text.startswith('(') else f'({text})'}"

    # ---- memory

    def start(self, axis: str) -> str:
        return "0" if self.kernel.axis[axis].kind == "whole" else f"first_{axis}"

    def coordinate(self, axis: str, of: t.TileType) -> str:
        """The coordinate along an axis at the current element of a tile."""
        parts = [p for p in (self.start(axis), axis if axis in of.axes else "0") if p != "0"]
        return " + ".join(parts) or "0"

    def term(self, term: t.Term, of: t.TileType) -> str:
        text = self.coordinate(term.axis, of)
        if term.div != 1 or term.mod:
            text = f"{grouped(text)} / {term.div}" + (f" % {term.mod}" if term.mod else "")
        if term.scale == 1:
            return text
        return f"{size_text(term.scale)} * {grouped(text)}"

    def index(self, index: t.Index, of: t.TileType) -> str:
        parts = [self.term(x, of) for x in index.terms]
        if index.offset != 0 or not parts:
            parts.append(size_text(index.offset))
        return " + ".join(parts)

    def accessed(self, op: t.Load | t.Store) -> t.TileType:
        return t.tile_type(op) if isinstance(op, t.Load) else t.tile_type(op.value)

    def address(self, op: t.Load | t.Store) -> str:
        of, parts = self.accessed(op), []
        for index, stride in zip(op.indices, t.buffer_type(op.buffer).element_strides, strict=True):
            text = self.index(index, of)
            if text == "0":
                continue
            parts.append(text if stride == 1 else f"{grouped(text)} * {size_text(stride)}")
        return " + ".join(parts) or "0"

    def inside(self, op: t.Load | t.Store) -> str:
        """The condition under which the current element is in the buffer; '' where it always is."""
        of, over = self.accessed(op), self.kernel.may_overrun(op)
        conditions: dict[str, None] = {}
        for index, size in zip(op.indices, t.buffer_type(op.buffer).shape, strict=True):
            if not any(axis in over for axis in index.axes):
                continue
            text = self.index(index, of)
            if index.plain is None:
                conditions[f"{text} >= 0"] = None
                for axis in index.axes:
                    if self.kernel.axis[axis].ragged:
                        conditions[f"{self.coordinate(axis, of)} < {size_text(self.kernel.axis[axis].extent)}"] = None
            conditions[f"{text} < {size_text(size)}"] = None
        return " && ".join(conditions)

    def loaded(self, op: t.Load) -> str:
        text = f"{self.names[op.buffer]}[{self.address(op)}]"
        inside = self.inside(op)
        if not inside:
            return text
        return f"{inside} ? {text} : {number(op.pad or 0, t.tile_type(op).dtype)}"
