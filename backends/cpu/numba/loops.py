"""The nodes of a kernel's plan in order: loops, what they compute, reduce and carry, and what they write to arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from portakern.emit.loops.elements import source
from portakern.emit.loops.plan import (
    Compute,
    Join,
    KernelLoopPlan,
    LocalStore,
    Node,
    PackedProduct,
    Product,
    Repeat,
    SortedArrays,
    Sorting,
    Step,
    Storage,
    Walk,
    Write,
)
from portakern.emit.loops.uses import all_reads
from portakern.emit.python_like import Expr, call
from portakern.emit.running import Running
from portakern.ir.core import Op, Result
from portakern.ir.tile import Axis, For, Reduce, Store, ends_inside, tile_type

from . import words
from .naming import HEAVIEST, handed_on, in_order, read_once, weight
from .stores import StoreText


class LoopText(StoreText):
    """``running`` are the variables of running values; ``weights`` how many operations the expression of a value holds, and
    ``held`` which variables and arrays it reads."""

    def __init__(self, plan: KernelLoopPlan) -> None:
        super().__init__(plan)
        self.running: dict[Running, Expr] = {}
        self.weights: dict[Op, int] = {}
        self.held: dict[Op, frozenset[str | Storage]] = {}

    def _nodes(self, nodes: Sequence[Node], after: Sequence[Op] = ()) -> None:
        """A block; ``after`` are values that are read at its end."""
        nodes = in_order(nodes, after)
        once = read_once(nodes, after)
        for number, node in enumerate(nodes):
            match node:
                case Compute(op):
                    self._evaluate(op, op in once)
                case Write(LocalStore() as store):
                    if store.carried:
                        later = set(after).union(*map(all_reads, nodes[number + 1 :]))
                        self._keep_old(store.storage, once & later)
                    self._store_local(store)
                case Write(Store() as store):
                    self._store(store)
                case Write(Step(values)):
                    for line in handed_on([(self._value(arg).text, self._value(v).text, self._reads(v)) for arg, v in values]):
                        self.out.line(line)
                case Walk():
                    self._walk(node)
                case Repeat():
                    self._repeat(node)
                case Product(multiply):
                    self._multiply(multiply)
                case Sorting(what):
                    self._sort(what)

    # ---- values

    def _evaluate(self, op: Op, inline: bool) -> None:
        if isinstance(op, Running):
            self._run_on(op)
        elif isinstance(op, Result):
            carried = self.known.get(op.source.body.args[op.index])  # type: ignore[attr-defined]
            if carried is not None:  # else an array holds it
                self.known[op] = carried
        else:
            self.weights[op] = weight(op) + sum(self.weights.get(source(o), 0) for o in op.operands)
            self.held[op] = frozenset().union(*map(self._reads, op.operands))
            self.known[op] = self._compute(op)
            if not inline or self.weights[op] > HEAVIEST:
                self._give_name(op)

    def _give_name(self, op: Op) -> None:
        self.weights[op] = 0
        if not self.known[op].text.isidentifier():
            name = self.names.fresh(self._hint(op))
            self.out.line(f"{name} = {self.known[op]}")
            self.known[op] = Expr(name)

    def _keep_old(self, storage: Storage, values: set[Op]) -> None:
        """Give a name to those of ``values`` that are to be read after ``storage``, which they read, is overwritten."""
        for op in [op for op in self.known if op in values]:
            if storage in self._reads(op):
                self._give_name(op)

    def _reads(self, op: Op) -> frozenset[str | Storage]:
        """The variables and arrays that the expression of ``op`` reads."""
        op = source(op)
        if op in self.known and self.known[op].text.isidentifier():
            return frozenset({self.known[op].text})
        if op in self.held and op in self.known:
            return self.held[op]
        if op in self.arrays:
            return frozenset({self.arrays[op]})
        return frozenset().union(*map(self._reads, op.operands))

    def _store_local(self, store: LocalStore) -> None:
        element, value = self._element_of(store.storage), self._value(store.value)
        if isinstance(store, Join):
            value = words.accumulate(store.fn, element, value, store.dtype)
        if value != element:
            self.out.line(f"{element} = {value}")

    # ---- loops

    @contextmanager
    def _loop(self, head: str) -> Iterator[None]:
        """A loop; values named inside have no name after it."""
        outer = dict(self.known)
        with self.out.block(head):
            yield
        self.known = outer

    def _walk(self, node: Walk) -> None:
        for r in node.accumulate:
            self.known[r] = self._begin(self._hint(r), r)
        for r in node.running:
            self.running[r] = self._begin("running", r)
        with self._loop(self._for(node.axis, node.reverse)):
            self._nodes(node.body, [source(r.x) for r in node.accumulate])
            for r in node.accumulate:
                total = self.known[r]
                self.out.line(f"{total} = {words.accumulate(r.fn, total, self._value(r.x), tile_type(r).dtype)}")

    def _begin(self, hint: str, r: Reduce | Running) -> Expr:
        name = Expr(self.names.fresh(hint))
        self.out.line(f"{name} = {words.identity(r.fn, tile_type(r).dtype)}")
        return name

    def _run_on(self, op: Running) -> None:
        """One element further: the running value of the tile, with what came before it put to it."""
        running, dtype = self.running[op], tile_type(op).dtype
        line = f"{running} = {words.accumulate(op.fn, running, self._value(op.x), dtype)}"
        if not op.exclusive:
            self.out.line(line)
        self.known[op] = running if op.before is None else words.accumulate(op.fn, self._value(op.before), running, dtype)
        if op.exclusive or op.before is not None:
            name = self.names.fresh(f"running_{op.fn}")
            self.out.line(f"{name} = {self.known[op]}")
            self.known[op] = Expr(name)
        if op.exclusive:
            self.out.line(line)

    def _repeat(self, node: Repeat) -> None:
        loop, a = node.loop, self.axes[node.loop.axis]
        for arg, storage, init in zip(loop.body.args, node.carried, loop.init, strict=True):
            if storage is None:
                name, first = self.names.fresh(str(getattr(arg, "name", "carried"))), self._value(init)
                self.out.line(f"{name} = {first}")
                self.known[arg] = Expr(name)
        if a.axis.tile > 1 and a.start == "0":
            a.start = self.names.fresh(f"{a.name}0")
        first = a.name if a.axis.tile == 1 else a.start
        lo, hi = self._bounds(loop, a.axis)
        step = f", {self._tile(a.axis)}" if a.axis.tile > 1 else ""
        heading = f"range({hi})" if lo == "0" and not step else f"range({lo}, {hi}{step})"
        with self._loop(f"for {first} in {heading}:"):
            if a.axis.tile > 1:
                self._tile_end(a)
            self._nodes(node.body)

    def _bounds(self, loop: For, axis: Axis) -> tuple[str, str]:
        """Where the tiles of a loop begin and end."""
        lo, hi = "0", self._extent(axis)
        if loop.lo is not None:
            lo = self._value(loop.lo).text
            lo = f"{self._value(loop.lo).at(11)} // {self._tile(axis)} * {self._tile(axis)}" if axis.tile > 1 else lo
        if loop.hi is not None:
            given = self._value(loop.hi)
            hi = given if ends_inside(loop.hi, axis.extent) else call("min", given, hi)
        return lo, hi.text

    def _sort(self, what: SortedArrays) -> None:
        keys, sort = Expr(self.array_names[what.keys]), what.sort
        count = Expr(self._count(self.axes[sort.axis]))
        made = call("sorted_order", keys, count).text + (f"[:{sort.count}]" if sort.into else "")
        if 0 < sort.count <= words.FEWEST:
            made = call("first_few", keys, count, Expr(f"np.int64({sort.count})")).text
        order = self.names.fresh("order")
        self.out.line(f"{order} = {made}")
        for have, into in what.moved:
            value = order if have is None else f"{self.array_names[have]}[{order}]"
            self.out.line(f"{self.array_names[into]}[: len({order})] = {value}")

    def _multiply(self, m: PackedProduct) -> None:
        assert m.m is not None and m.n is not None  # the emitter refuses other products
        counts = [self._count(self.axes[x]) for x in (m.m, m.n, m.dot.axis)]
        self.out.line(call("dot", *(self.array_names[s] for s in (m.c, m.a, m.b)), *counts).text)
