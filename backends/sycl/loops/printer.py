"""Prints the plan of a kernel in the words of a language."""

from __future__ import annotations

import re
from collections.abc import Sequence

from portakern.emit.loops.elements import source
from portakern.emit.loops.plan import (
    Compute,
    KernelLoopPlan,
    LocalStore,
    Node,
    Product,
    Repeat,
    SortedArrays,
    Sorting,
    Step,
    Storage,
    Walk,
    Write,
)  # fmt: skip
from portakern.emit.loops.uses import once_used
from portakern.emit.running import Running
from portakern.ir.core import Arg, Op, Result
from portakern.ir.size import divides
from portakern.ir.tile import Axis, BufferType, For, Load, Reduce, Store, begins_inside, ends_inside, tile_type

from .access import size_text
from .expressions import ATOM, TypedExpr, write
from .memory import CLoopMemoryText
from .reductions import ReductionText
from .spelling import own
from .words import Words


class KernelPrinter(CLoopMemoryText, ReductionText):
    """One kernel: its head, its grid, and the nodes of its plan in order."""

    def text(self) -> str:
        k = self.kernel
        params = [self.parameter(a) for a in k.args] + [self.words.size(own(s)) for s in k.sizes]
        for s in self.plan.storages:
            about = f"[{', '.join(a for a, _ in s.dims)}] {s.purpose}"
            for line in self.words.local_array(s.dtype, self.arrays[s], s.count, about):
                self.say(line)
        for node in self.plan.nodes():
            if isinstance(node, Sorting):
                self.declare_orders(node.what)
        if self.plan.storages:
            self.say("")
        self.grid()
        self.block(self.plan.body)
        return "\n".join([self.words.head(self.plan, params), *self.lines, "}"])

    def declare_orders(self, what: SortedArrays) -> None:
        self.orders[what] = self.fresh("order"), self.fresh("other")
        for name, about in zip(self.orders[what], ("where its elements lie in order", "half way there"), strict=True):
            for line in self.words.local_array("i32", name, what.keys.count, about):
                self.say(line)

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

    def block(self, nodes: Sequence[Node], accumulate: Sequence[Reduce] = ()) -> None:
        mine = once_used(nodes, [source(r.x) for r in accumulate])
        stores = [n.what for n in nodes if isinstance(n, Write) and isinstance(n.what, LocalStore)]
        outer, self.overwritten = self.overwritten, {self.arrays[store.storage] for store in stores if store.carried}
        for node in nodes:
            match node:
                case Compute(op):
                    self.compute(op, op in mine)
                case Write(LocalStore() as store):
                    self.store_local(store)
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
                case Sorting(what):
                    self.sort(what)
        self.overwritten = outer

    def compute(self, op: Op, inline: bool) -> None:
        if isinstance(op, Result):
            arg = source(op.source.body.args[op.index])  # type: ignore[attr-defined]
            if arg in self.names:  # else an array holds it
                self.names[op] = self.names[arg]
            return
        if isinstance(op, Running):
            self.run_on(op)
            return
        text = self.load(op) if isinstance(op, Load) else write(op, [self.value(o) for o in op.operands], self.words)
        self.define(op, text, inline)

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
            old = self.named_before(node)
            self.block(node.body, node.accumulate)
            for r, total in sums.items():
                self.accumulate(r, total)
            for arg in old:
                del self.names[arg]
            self.vector, self.left = outer
        for r, total in sums.items():
            self.finish_sum(r, total)

    def named_before(self, node: Walk) -> list[Arg]:
        """Names carried values that a reduction takes as they are: it does so when the body has overwritten them."""
        stores = (n.what for n in node.body if isinstance(n, Write) and isinstance(n.what, LocalStore))
        overwritten = {store.storage for store in stores if store.carried}
        old = dict.fromkeys(source(r.x) for r in node.accumulate)
        found = [o for o in old if isinstance(o, Arg) and o not in self.names and self.storage.get(o) in overwritten]
        for op in found:
            self.define(op, self.value(op))
        return found

    def full(self, axis: Axis, lanes: int) -> bool:
        return divides(lanes, axis.extent) and (axis.kind == "whole" or axis.tile % lanes == 0)

    def repeat(self, node: Repeat) -> None:
        loop = node.loop
        axis = self.kernel.axis[loop.axis]
        for arg, storage, init in zip(loop.body.args, node.carried, loop.init, strict=True):
            if storage is None:
                self.start_carried(arg, init)
        low, high = self.bounds(loop, axis)
        first, c = self.firsts[axis.name], self.coords[axis.name]
        if axis.tile == 1:
            self.firsts[axis.name] = c
            with self.braces(f"for ({self.index} {c} = {low}; {c} < {high}; ++{c})"):
                self.block(node.body)
            return
        with self.braces(f"for ({self.index} {first} = {low}; {first} < {high}; {first} += {axis.tile})"):
            self.say(f"const {self.index} {self.ends[axis.name]} = {self.end_of(axis)};")
            self.block(node.body)

    def start_carried(self, arg: Op, init: Op) -> None:
        """The variable of a carried value."""
        lanes, dtype = self.lanes_of(arg), tile_type(arg).dtype
        name = self.fresh(str(getattr(arg, "name", "carried")))
        start = self.value(init)
        text = start.wide(lanes, self.words).text if start.dtype == "bool" else start.text
        self.say(f"{self.words.held(dtype, lanes)} {name} = {text};")
        self.names[arg] = TypedExpr(name, ATOM, dtype, lanes)

    def bounds(self, loop: For, axis: Axis) -> tuple[str, str]:
        """Where the tiles of a loop begin and end."""
        low, high = "0", self.sized(axis.extent)
        if loop.lo is not None:
            low = self.as_index(loop.lo)
            low = low if begins_inside(loop.lo) else f"{self.words.call('max')}({low}, {self.sized(0)})"
            low = f"{low} / {axis.tile} * {axis.tile}" if axis.tile > 1 else low
        if loop.hi is not None:
            end = self.as_index(loop.hi)
            end = end if ends_inside(loop.hi, axis.extent) else f"{self.words.call('min')}({end}, {high})"
            high = self.fresh(f"{axis.name}_end")
            self.say(f"const {self.index} {high} = {end};")
        return low, high

    def as_index(self, op: Op) -> str:
        v = self.value(op)
        return v.text if self.words.held(v.dtype) == self.index else f"({self.index}){v.at(ATOM)}"

    def step(self, values: Sequence[tuple[Op, Op]]) -> None:
        """Hand all values on at once: one that another one is made of is read before it is overwritten."""
        made = [(self.names[arg], self.value(value)) for arg, value in values]
        made = [(to, new) for to, new in made if new.text != to.text]
        overwritten: set[str] = set()
        for number, (to, new) in enumerate(made):
            if overwritten & set(re.findall(r"\w+", new.text)):
                old = self.fresh(f"old_{new.text}" if new.text.isidentifier() else "next")
                self.say(f"const {self.words.held(new.dtype, new.lanes)} {old} = {new.text};")
                made[number] = to, TypedExpr(old, ATOM, new.dtype, new.lanes)
            overwritten.add(to.text)
        for to, new in made:
            text = new.wide(to.lanes, self.words).text if new.dtype == "bool" else new.text
            self.say(f"{to.text} = {text};")

    def sort(self, what: SortedArrays) -> None:
        sort, (order, other) = what.sort, self.orders[what]
        count = self.count(sort.axis)
        self.say(f"{self.words.sort(what.keys.dtype)}({self.arrays[what.keys]}, {order}, {other}, {count});")
        i = self.fresh("i")
        with self.braces(f"for (int {i} = 0; {i} < {sort.count if sort.into else count}; ++{i})"):
            for have, into in what.moved:
                value = f"{order}[{i}]" if have is None else f"{self.arrays[have]}[{order}[{i}]]"
                self.say(f"{self.arrays[into]}[{i}] = {value};")

    def count(self, axis: str | None) -> str:
        """How many elements of an axis's tile there are."""
        if axis is None:
            return "1"
        first, end = self.firsts[axis], self.ends[axis]
        return end if first == "0" else f"{end} - {first}"

    def product(self, node: Product) -> None:
        m = node.what
        most = self.kernel.axis[m.dot.axis].tile
        if m.paired:
            name = self.words.product_of_pairs(m.rows, m.vectors, most, m.turned)
        else:
            name = self.words.product(m.c.dtype, m.rows, m.lanes, m.vectors, most, m.turned)

        def pitch(s: Storage) -> str:
            return str(s.shape[-1])

        k = m.dot.axis
        depth = "1" if self.kernel.axis[k].tile == 1 else self.count(k)
        self.say(f"{name}({self.arrays[m.c]}, {pitch(m.c)}, {self.arrays[m.a]}, {pitch(m.a)}, {self.arrays[m.b]}, "
                 f"{pitch(m.b)}, {self.count(m.m)}, {self.count(m.n)}, {depth});")


def bracketed(size: object) -> str:
    text = size_text(size)  # type: ignore[arg-type]
    return text if text.isalnum() else f"({text})"


def print_kernel(plan: KernelLoopPlan, words: Words) -> str:
    return KernelPrinter(plan, words).text()
