"""Prints the plan of a kernel in the words of a language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import contextmanager

from portakern.emit.running import Running
from portakern.ir.core import Arg, Op, Result
from portakern.ir.size import divides
from portakern.ir.tile import (
    Axis,
    Binary,
    Bitcast,
    BufferType,
    Cast,
    Compare,
    Const,
    Coord,
    Extent,
    For,
    Kernel,
    Load,
    Reduce,
    Select,
    Start,
    Store,
    Unary,
    buffer_type,
    tile_type,
)  # fmt: skip

from .access import checks, offset_text, size_text, step_along
from .expressions import ATOM, PREFIX, SUM, Text, write
from .forming import _hint, axes_of, source, stored_value
from .plan import Compute, KernelPlan, Node, Product, Put, Repeat, Step, Storage, Walk, Write
from .spelling import REGISTER, own, reserved
from .words import Words

_LONG = 72  # an expression longer than this gets a name of its own


class KernelPrinter:
    """One kernel.  ``names`` holds what every value in scope is called (or its expression)."""

    def __init__(self, plan: KernelPlan, words: Words) -> None:
        self.plan, self.kernel, self.words = plan, plan.kernel, words
        self.lines: list[str] = []
        self.depth = 1
        self.storage = dict(plan.stored)
        self.names: dict[Op, Text] = {}
        self.taken: set[str] = {own(s) for s in self.kernel.sizes}
        self.vector: tuple[str, int] | None = None
        self.left: str | None = None  # lanes that are left, where the vector may be cut short
        wide = self.kernel.sizes or any(isinstance(a.type, BufferType) and a.type.wide for a in self.kernel.args)
        self.index = words.held("i64" if wide else "i32")
        self.buffers: dict[Op, str] = {a: self.fresh(a.name) for a in self.kernel.args}
        self.arrays: dict[Storage, str] = {s: self.fresh(s.name) for s in plan.storages}
        self.coords = {a.name: self.fresh(a.name) for a in self.kernel.axes}
        self.firsts = {a.name: self.fresh(f"{a.name}0") for a in self.kernel.axes}
        self.ends = {a.name: self.fresh(f"{a.name}1") for a in self.kernel.axes}
        self.running: dict[Running, Text] = {}
        self.overwritten: set[str] = set()  # arrays that this block writes: what it read of them gets a name

    # ---- names and lines

    def fresh(self, hint: str) -> str:
        base = hint if hint.isidentifier() and not reserved(hint) else f"{hint}_"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line if line else "")

    @contextmanager
    def braces(self, head: str):
        """A block; names given inside are free again after it."""
        self.say(head + " {")
        self.depth += 1
        names, taken = dict(self.names), set(self.taken)
        yield
        self.names, self.taken = names, taken
        self.depth -= 1
        self.say("}")

    # ---- the kernel

    def text(self) -> str:
        k = self.kernel
        params = [self.parameter(a) for a in k.args] + [self.words.size(own(s)) for s in k.sizes]
        for s in self.plan.storages:
            about = f"[{', '.join(a for a, _ in s.dims)}] {s.purpose}"
            for line in self.words.local_array(s.dtype, self.arrays[s], s.count, about):
                self.say(line)
        if self.plan.storages:
            self.say("")
        self.grid()
        self.block(self.plan.body)
        return "\n".join([self.words.head(self.plan, params), *self.lines, "}"])

    def parameter(self, arg: Arg) -> str:
        name = self.buffers[arg]
        if isinstance(arg.type, BufferType):
            return self.words.parameter(arg.type.dtype, name, arg in self.kernel.written)
        return f"const {self.words.held(tile_type(arg).dtype)} {name}"

    def grid(self) -> None:
        axes = self.kernel.grid
        for number, axis in enumerate(reversed(axes)):
            group = self.words.group(min(number, 2))
            if len(axes) > 3 and number >= 2:  # the third dimension of the grid holds all slower axes
                inner: object = 1
                for a in axes[len(axes) - number : len(axes) - 2]:
                    inner = inner * a.steps  # type: ignore[operator]
                group = group if inner == 1 else f"{group} / {bracketed(inner)}"
                if number < len(axes) - 1:
                    group = f"{group} % {bracketed(axis.steps)}"
            self.tile_range(axis, f"({self.index}){group if ' ' not in group else f'({group})'}", f" * {axis.tile}")
        for axis in self.kernel.axes:
            if axis.kind == "whole":
                self.firsts[axis.name], self.ends[axis.name] = "0", size_text(axis.extent)
                if axis.tile == 1:
                    self.coords[axis.name] = "0"

    def tile_range(self, axis: Axis, start: str, times: str) -> None:
        if axis.tile == 1:
            self.say(f"const {self.index} {self.coords[axis.name]} = {start};")
            self.firsts[axis.name] = self.coords[axis.name]
            return
        first, end = self.firsts[axis.name], self.ends[axis.name]
        self.say(f"const {self.index} {first} = {start}{times};")
        self.say(f"const {self.index} {end} = {self.end_of(axis)};")

    def end_of(self, axis: Axis) -> str:
        first = self.firsts[axis.name]
        if not axis.ragged:
            return f"{first} + {axis.tile}"
        return f"{self.words.call('min')}({first} + {axis.tile}, {self.sized(axis.extent)})"

    def sized(self, size: object) -> str:
        text = size_text(size)  # type: ignore[arg-type]
        return f"{text}L" if self.index != self.words.held("i32") and text.isdigit() else text

    # ---- nodes

    def block(self, nodes: Sequence[Node], accumulate: Sequence[Reduce] = ()) -> None:
        mine = self.once_used(nodes, [source(r.x) for r in accumulate])
        outer, self.overwritten = self.overwritten, {self.arrays[n.what.storage] for n in nodes
                            if isinstance(n, Write) and isinstance(n.what, Put) and n.what.carried}
        for node in nodes:
            match node:
                case Compute(op):
                    self.compute(op, op in mine)
                case Write(Put() as put):
                    self.put(put)
                case Write(Store() as store):
                    self.store(store)
                case Write(Step(values)):
                    self.step(values)
                case Walk():
                    self.walk(node)
                case Repeat():
                    self.repeat(node)
                case Product():
                    self.product(node)
        self.overwritten = outer

    def once_used(self, nodes: Sequence[Node], after: Sequence[Op]) -> set[Op]:
        """Values read exactly once, in this same block: they are written where they are used."""
        here: dict[Op, int] = {}
        for op in after:
            here[op] = here.get(op, 0) + 1
        deeper: set[Op] = set()
        last_writes = [n.what for n in nodes if isinstance(n, Write) and (
            isinstance(n.what, Step) or (isinstance(n.what, Put) and n.what.carried))]
        several = len(last_writes) + sum(len(w.values) for w in last_writes if isinstance(w, Step)) > 2
        for node in nodes:
            for op in self.reads(node):
                here[op] = here.get(op, 0) + 1
            if isinstance(node, Walk | Repeat):
                deeper |= self.all_reads(node)
        held_back = {source(v) for w in last_writes for v in (
            [v for _, v in w.values] if isinstance(w, Step) else [w.value])} if several else set()  # type: ignore[union-attr]
        return {op for op, n in here.items() if n == 1 and op not in deeper and op not in held_back
                and isinstance(op, Unary | Binary | Compare | Select | Cast | Bitcast)}

    def reads(self, node: Node) -> list[Op]:
        match node:
            case Compute(op):
                return [source(o) for o in op.operands]
            case Write(Put(value)):
                return [value]
            case Write(Store() as s):
                return [stored_value(s)]
            case Write(Step(values)):
                return [v for _, v in values]
        return []

    def all_reads(self, node: Node) -> set[Op]:
        found = set(self.reads(node))
        if isinstance(node, Walk):
            found |= {source(r.x) for r in node.accumulate}
        if isinstance(node, Repeat):
            found |= {source(v) for v in (*node.loop.init, node.loop.lo, node.loop.hi) if v is not None}
        if isinstance(node, Walk | Repeat):
            for inner in node.body:
                found |= self.all_reads(inner)
        return found

    def compute(self, op: Op, inline: bool) -> None:
        if isinstance(op, Result):
            arg = source(op.source.body.args[op.index])  # type: ignore[attr-defined]
            if op not in self.storage and arg in self.names:
                self.names[op] = self.names[arg]
            return
        if isinstance(op, Running):
            self.run_on(op)
            return
        text = self.load(op) if isinstance(op, Load) else write(op, [self.value(o) for o in op.operands], self.words)
        self.define(op, text, inline)

    def run_on(self, op: Running) -> None:
        """One element further: the running value of the tile, with what came before it put to it."""
        running, x = self.running[op], self.value(op.x)
        line = f"{running.text} = {self.joined(op.fn, running, x.wide(running.lanes, self.words)).text};"
        before = running if op.before is None else self.joined(op.fn, self.value(op.before), running)
        if not op.exclusive:
            self.say(line)
        name = self.fresh(_hint(op))
        self.say(f"const {self.words.held(running.dtype, running.lanes)} {name} = {before.text};")
        self.names[op] = Text(name, ATOM, running.dtype, running.lanes)
        if op.exclusive:
            self.say(line)

    def joined(self, fn: str, a: Text, b: Text) -> Text:
        lanes = max(a.lanes, b.lanes)
        if fn in ("sum", "prod"):
            return Text(f"{a.at(ATOM)} {'+' if fn == 'sum' else '*'} {b.at(ATOM)}", SUM, a.dtype, lanes)
        a, b = a.wide(lanes, self.words), b.wide(lanes, self.words)
        return Text(f"{self.words.extreme(fn, a.dtype, lanes)}({a.text}, {b.text})", ATOM, a.dtype, lanes)

    def define(self, op: Op, text: Text, inline: bool = False) -> None:
        literal = re.fullmatch(r"-?\d[\d.e-]*[fLu]*", text.text)
        if literal or (inline and len(text.text) <= _LONG and not any(name in text.text for name in self.overwritten)):
            self.names[op] = text
            return
        hint = _hint(op)
        name = self.fresh(f"{hint}v" if isinstance(op, Load) else hint)
        self.say(f"const {self.words.held(text.dtype, text.lanes)} {name} = {text.text};")
        self.names[op] = Text(name, ATOM, text.dtype, text.lanes)

    def lanes_of(self, op: Op) -> int:
        return self.vector[1] if self.vector and self.vector[0] in axes_of(op) else 1

    def value(self, op: Op) -> Text:
        """The expression of a value at the current element."""
        op = source(op)
        if op in self.names:
            return self.names[op]
        if op in self.storage:
            return self.read(self.storage[op], tile_type(op).dtype)
        dtype = tile_type(op).dtype
        match op:
            case Const(v):
                text = self.words.constant(v, dtype)
                return Text(text, PREFIX if text.startswith("-") else ATOM, dtype)
            case Extent(size):
                text = size_text(size)
                cast = f"({self.words.held(dtype)})({text})"
                return Text(text, ATOM, dtype) if isinstance(size, int) and size >= 0 else Text(cast, PREFIX, dtype)
            case Start(axis):
                return self.integer(self.firsts[axis], dtype)
            case Coord(axis):
                base = self.integer(self.coords[axis], dtype)
                lanes = self.lanes_of(op)
                if lanes == 1:
                    return base
                steps = self.words.lanes(lanes)
                if REGISTER[dtype] != "i32":
                    steps = self.words.convert(dtype, lanes, steps)
                return Text(f"{base.text} + {steps}", SUM, dtype, lanes)
            case Arg() if op in self.buffers:
                return Text(self.buffers[op], ATOM, dtype)
        op.fail(f"{op.mnemonic()} is not known where it is used", hint="this is a fault of the emitter")

    def integer(self, text: str, dtype: str) -> Text:
        if self.words.held(dtype) == self.index or text.isdigit():
            return Text(text, ATOM, dtype)
        return Text(f"({self.words.held(dtype)}){text}", PREFIX, dtype)

    # ---- local arrays

    def place(self, s: Storage) -> tuple[str, int]:
        """Offset of the current element in an array, and how far apart lanes lie (0: not along the vector)."""
        parts: list[str] = []
        stride, step = 1, 0
        for (axis, _), size in reversed(list(zip(s.dims, s.shape, strict=True))):
            first, coord = self.firsts[axis], self.coords[axis]
            local = coord if first == "0" else f"{coord} - {first}"
            if stride != 1 and first != "0":
                local = f"({local})"
            if first != coord and s.lane_axis != axis:
                parts.append(local if stride == 1 else f"{local} * {stride}")
            if self.vector and self.vector[0] == axis:
                step = stride
            stride *= size
        return " + ".join(reversed(parts)) or "0", step

    def read(self, s: Storage, dtype: str) -> Text:
        offset, step = self.place(s)
        name = self.arrays[s]
        if step == 0:
            text = f"{name}[{offset}]"
            return Text(f"({text} != 0)" if dtype == "bool" else text, ATOM, dtype)
        lanes = self.vector[1] if self.vector else 1
        if step == 1:
            text = self.words.read_local(lanes, f"{name} + {offset}")
        else:
            text = self.words.vector(s.dtype, lanes, [f"{name}[{offset} + {i * step}]" for i in range(lanes)])
        return Text(f"({text} != 0)" if dtype == "bool" else text, ATOM, dtype, lanes)

    def put(self, put: Put) -> None:
        s, v = put.storage, self.value(put.value)
        offset, step = self.place(s)
        name = self.arrays[s]
        if s.dtype != REGISTER[v.dtype]:
            v = write(Cast(Const(0, v.dtype), s.dtype), [v], self.words)
        if step == 0:
            self.say(f"{name}[{offset}] = {v.text};")
        else:
            lanes = self.vector[1] if self.vector else 1
            if v.lanes > 1 and v.dtype == "bool":
                v = Text(f"-{v.at(ATOM)}", PREFIX, "i32", v.lanes)
            v = Text(v.text, v.level, s.dtype, v.lanes).wide(lanes, self.words)
            if step == 1:
                self.say(self.words.write_local(lanes, f"{name} + {offset}", v.text) + ";")
            else:
                self.scatter(name, offset, step, lanes, v)

    def scatter(self, name: str, offset: str, step: int, lanes: int, v: Text) -> None:
        whole = self.fresh("v")
        self.say(f"const {self.words.held(v.dtype, lanes)} {whole} = {v.text};")
        for i in range(lanes):
            self.say(f"{name}[{offset} + {i * step}] = {whole}.s{i:x};")

    # ---- memory

    def coordinate(self, axis: str) -> str:
        return self.coords[axis]

    def load(self, op: Load) -> Text:
        dtype = tile_type(op).dtype
        have = buffer_type(op.buffer)
        buffer = self.buffers[op.buffer]
        bounds = checks(self.kernel, op)
        pad = self.words.constant(0 if op.pad is None else op.pad, dtype)
        lanes = self.lanes_of(op)
        if lanes == 1:
            text = self.words.element(have.dtype, buffer, offset_text(op, self.coordinate))
            if bounds:
                inside = " && ".join(c.text(self.coordinate) for c in bounds)
                text = f"{inside} ? {text} : {pad}"
                return Text(text, SUM + 5, dtype)
            return Text(text, ATOM, dtype)
        assert self.vector is not None
        step = step_along(op, self.vector[0])
        touched = [c for c in bounds if self.vector[0] in c.index.axes]
        if step is None or touched or bounds:
            return self.load_lanes(op, lanes, bounds, pad)
        address = f"{buffer} + {offset_text(op, self.coordinate)}"
        apart = None if step == 1 else size_text(step)
        return Text(self.words.load(have.dtype, lanes, address, self.left, apart), ATOM, dtype, lanes)

    def load_lanes(self, op: Load, lanes: int, bounds: list, pad: str) -> Text:
        """Lane by lane, where neighbours do not lie in even steps or may be outside the array."""
        assert self.vector is not None
        axis = self.vector[0]
        have, dtype = buffer_type(op.buffer), tile_type(op).dtype
        buffer = self.buffers[op.buffer]
        array, each, lane = self.fresh(f"{buffer}_lanes"), self.fresh(f"{self.coords[axis]}i"), self.fresh("i")

        def name(a: str) -> str:
            return each if a == axis else self.coords[a]

        value = self.words.element(have.dtype, buffer, offset_text(op, name))
        if have.dtype == "bool":
            value = f"-{value}"
        if bounds:
            value = f"{' && '.join(c.text(name) for c in bounds)} ? {value} : {pad}"
        count = self.words.count(self.left, lanes, self.index) if self.left else str(lanes)
        self.say(f"{self.words.held(dtype)} {array}[{lanes}] = {{0}};")
        with self.braces(f"for (int {lane} = 0; {lane} < {count}; ++{lane})"):
            self.say(f"const {self.index} {each} = {self.coords[axis]} + {lane};")
            self.say(f"{array}[{lane}] = {value};")
        return Text(self.words.read_local(lanes, array), ATOM, dtype, lanes)

    def store(self, op: Store) -> None:
        have = buffer_type(op.buffer)
        buffer, dtype = self.buffers[op.buffer], have.dtype
        v = self.value(stored_value(op))
        bounds = checks(self.kernel, op)
        lanes = self.lanes_of(op.value)
        step = step_along(op, self.vector[0]) if self.vector and lanes > 1 else None
        if lanes > 1 and (step is None or bounds or op.mode != "set"):
            return self.store_lanes(op, v.wide(lanes, self.words), lanes, bounds)
        if lanes == 1:
            offset = offset_text(op, self.coordinate)
            line = self.write_one(op, dtype, buffer, offset, v.text)
            if bounds:
                with self.braces(f"if ({' && '.join(c.text(self.coordinate) for c in bounds)})"):
                    self.say(line)
                return None
            self.say(line)
            return None
        address = f"{buffer} + {offset_text(op, self.coordinate)}"
        apart = None if step == 1 else size_text(step)  # type: ignore[arg-type]
        v = Text(v.text, v.level, dtype, v.lanes).wide(lanes, self.words)
        self.say(self.words.store(dtype, lanes, address, v.text, self.left, apart) + ";")
        return None

    def write_one(self, op: Store, dtype: str, buffer: str, offset: str, value: str) -> str:
        if op.mode == "set":
            return self.words.write_element(dtype, buffer, offset, value) + ";"
        return f"{self.words.atomic(op.mode, dtype)}({buffer} + {offset}, {value});"

    def store_lanes(self, op: Store, v: Text, lanes: int, bounds: list) -> None:
        assert self.vector is not None
        axis = self.vector[0]
        buffer, dtype = self.buffers[op.buffer], buffer_type(op.buffer).dtype
        array, each, lane = self.fresh(f"{buffer}_lanes"), self.fresh(f"{self.coords[axis]}i"), self.fresh("i")
        self.say(f"{self.words.held(dtype)} {array}[{lanes}];")
        self.say(self.words.write_local(lanes, array, v.text) + ";")

        def name(a: str) -> str:
            return each if a == axis else self.coords[a]

        value = f"({array}[{lane}] != 0)" if dtype == "bool" else f"{array}[{lane}]"
        line = self.write_one(op, dtype, buffer, offset_text(op, name), value)
        count = self.words.count(self.left, lanes, self.index) if self.left else str(lanes)
        with self.braces(f"for (int {lane} = 0; {lane} < {count}; ++{lane})"):
            self.say(f"const {self.index} {each} = {self.coords[axis]} + {lane};")
            self.say(f"if ({' && '.join(c.text(name) for c in bounds)})" if bounds else line)
            if bounds:
                self.say("    " + line)

    # ---- loops

    def walk(self, node: Walk) -> None:
        axis = self.kernel.axis[node.axis]
        sums = {r: self.start_sum(r, node) for r in node.accumulate}
        self.running.update({r: self.start_running(r) for r in node.running})
        c, first, end = self.coords[node.axis], self.firsts[node.axis], self.ends[node.axis]
        step = f"{c} += {node.lanes}" if node.lanes > 1 else f"++{c}"
        outer = self.vector, self.left
        head = f"{self.index} {c} = {first}; {c} < {end}; {step}"
        if node.reverse:
            head = f"{self.index} {c} = {end} - 1; {c} >= {first}; --{c}"
        with self.braces(f"for ({head})"):
            if node.lanes > 1:
                self.vector = (node.axis, node.lanes)
                self.left = None if self.full(axis, node.lanes) else f"{end} - {c}"
            self.block(node.body, node.accumulate)
            for r, total in sums.items():
                self.accumulate(r, total)
            self.vector, self.left = outer
        for r, total in sums.items():
            self.finish_sum(r, total)

    def full(self, axis: Axis, lanes: int) -> bool:
        return divides(lanes, axis.extent) and (axis.kind == "whole" or axis.tile % lanes == 0)

    def start_sum(self, r: Reduce, node: Walk) -> Text:
        dtype = tile_type(r).dtype
        lanes = node.lanes if node.lanes > 1 else self.lanes_of(r)
        name = self.fresh(_hint(r) + ("_lanes" if node.lanes > 1 else ""))
        self.say(f"{self.words.held(dtype, lanes)} {name} = {self.identity(r.fn, dtype, lanes)};")
        return Text(name, ATOM, dtype, lanes)

    def start_running(self, r: Running) -> Text:
        dtype, lanes = tile_type(r).dtype, self.lanes_of(r)
        name = self.fresh("so_far")
        self.say(f"{self.words.held(dtype, lanes)} {name} = {self.identity(r.fn, dtype, lanes)};")
        return Text(name, ATOM, dtype, lanes)

    def identity(self, fn: str, dtype: str, lanes: int) -> str:
        if fn in ("any", "all"):
            return str((-1 if lanes > 1 else 1) if fn == "all" else 0)
        return self.words.limit(dtype, fn)

    def accumulate(self, r: Reduce, total: Text) -> None:
        v = self.value(r.x).wide(total.lanes, self.words)
        if self.vector and self.vector[0] == r.axis and self.left:
            keep = self.words.keep(v.dtype, v.lanes)
            v = Text(f"{keep}({v.text}, {self.left}, {self.identity(r.fn, v.dtype, v.lanes)})", ATOM, v.dtype, v.lanes)
        name = total.text
        if r.fn in ("sum", "prod"):
            self.say(f"{name} {'+' if r.fn == 'sum' else '*'}= {v.text};")
        elif r.fn in ("any", "all"):
            sign = {"any": "|", "all": "&"}[r.fn]
            self.say(f"{name} {sign}= {v.text};")
        else:
            self.say(f"{name} = {self.words.extreme(r.fn, v.dtype, v.lanes)}({name}, {v.text});")

    def finish_sum(self, r: Reduce, total: Text) -> None:
        if total.lanes == self.lanes_of(r):
            self.names[r] = total
            return
        if r.fn in ("any", "all"):
            text = f"{self.words.call(r.fn)}({total.text})"
        else:
            text = f"{self.words.across(r.fn, total.dtype, total.lanes)}({total.text})"
        self.define(r, Text(text, ATOM, total.dtype))

    def repeat(self, node: Repeat) -> None:
        loop = node.loop
        axis = self.kernel.axis[loop.axis]
        for arg, storage, init in zip(loop.body.args, node.carried, loop.init, strict=True):
            if storage is None:
                lanes = self.lanes_of(arg)
                name = self.fresh(str(getattr(arg, "name", "carried")))
                dtype = tile_type(arg).dtype
                start = self.value(init)
                text = start.wide(lanes, self.words).text if start.dtype == "bool" else start.text
                self.say(f"{self.words.held(dtype, lanes)} {name} = {text};")
                self.names[arg] = Text(name, ATOM, dtype, lanes)
        extent = self.sized(axis.extent)
        lo = "0" if loop.lo is None else f"{self.words.call('max')}({self.as_index(loop.lo)}, {self.sized(0)})"
        if loop.lo is not None and axis.tile > 1:
            lo = f"{lo} / {axis.tile} * {axis.tile}"
        hi = extent if loop.hi is None else f"{self.words.call('min')}({self.as_index(loop.hi)}, {extent})"
        if loop.hi is not None:
            bound = self.fresh(f"{axis.name}_end")
            self.say(f"const {self.index} {bound} = {hi};")
            hi = bound
        first, c = self.firsts[axis.name], self.coords[axis.name]
        if axis.tile == 1:
            self.firsts[axis.name] = c
            with self.braces(f"for ({self.index} {c} = {lo}; {c} < {hi}; ++{c})"):
                self.block(node.body)
            return
        with self.braces(f"for ({self.index} {first} = {lo}; {first} < {hi}; {first} += {axis.tile})"):
            self.say(f"const {self.index} {self.ends[axis.name]} = {self.end_of(axis)};")
            self.block(node.body)

    def as_index(self, op: Op) -> str:
        v = self.value(op)
        return v.text if self.words.held(v.dtype) == self.index else f"({self.index}){v.at(ATOM)}"

    def step(self, values: Sequence[tuple[Op, Op]]) -> None:
        for arg, value in values:
            target, new = self.names[arg].text, self.value(value)
            if new.text == target:
                continue
            text = new.wide(self.names[arg].lanes, self.words).text if new.dtype == "bool" else new.text
            self.say(f"{target} = {text};")

    def product(self, node: Product) -> None:
        m = node.what
        name = self.words.product(m.c.dtype, m.rows, m.lanes, m.vectors)

        def count(axis: str | None) -> str:
            if axis is None:
                return "1"
            first, end = self.firsts[axis], self.ends[axis]
            return end if first == "0" else f"{end} - {first}"

        def pitch(s: Storage) -> str:
            return str(s.shape[-1])

        k = m.dot.axis
        depth = "1" if self.kernel.axis[k].tile == 1 else count(k)
        self.say(f"{name}({self.arrays[m.c]}, {pitch(m.c)}, {self.arrays[m.a]}, {pitch(m.a)}, {self.arrays[m.b]}, "
                 f"{pitch(m.b)}, {count(m.m)}, {count(m.n)}, {depth});")


def bracketed(size: object) -> str:
    text = size_text(size)  # type: ignore[arg-type]
    return text if text.isalnum() else f"({text})"


def print_kernel(plan: KernelPlan, words: Words) -> str:
    return KernelPrinter(plan, words).text()


__all__ = ["For", "Kernel", "print_kernel"]
