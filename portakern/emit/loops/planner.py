"""From a body on tiles to the loops of a plan.

The work goes from the outside in.  Given a list of operations and the axes already walked:

1. nothing is left to walk: the operations are computed one after the other;
2. there is a matrix product: the list is cut around it, since a product works on whole packed tiles;
3. an axis is *parallel* in all operations: one loop over it goes around them, a vector loop for the last such axis;
4. otherwise an axis is reduced along: the list is cut into stages, each a loop that ends with its reductions known.

A value used beyond the loop that computes it is kept in a local array, or computed again where that is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from portakern.emit.running import Running
from portakern.ir.core import Arg, Op, Result, yielded
from portakern.ir.tile import Dot, For, Kernel, Reduce, Store, tile_type

from .arrays import LocalArrays
from .crossing import Crossing
from .elements import Bound, axes_of, source, unbound
from .items import Items, reads_raw
from .plan import (
    Compute,
    Item,
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
)  # fmt: skip
from .products import OperandPacking
from .vectors import Vectors

Cut = Callable[[Item], bool]


def plan_kernel_loops(kernel: Kernel, held: Mapping[str, str], lanes: int = 16, rows: int = 8,
                      vectors: int = 2, paired: Collection[str] = (), turns: bool = False) -> KernelLoopPlan:  # fmt: skip
    """The plan of ``kernel`` for vectors of ``lanes`` and a register tile of ``rows`` x (``lanes`` * ``vectors``).

    ``held`` is the dtype that the elements of arrays have for a value's dtype, where it is another; operands of products of a
    dtype in ``paired`` are kept as they are, since two of their products are taken at a time, and lie as they do in memory
    where the product ``turns`` them.
    """
    return LoopPlanner(kernel, LocalArrays(lanes, vectors, held, paired, turns), rows).plan()


class LoopPlanner:
    def __init__(self, kernel: Kernel, arrays: LocalArrays, rows: int) -> None:
        self.kernel, self.arrays, self.products = kernel, arrays, OperandPacking(kernel, arrays, rows)
        self.items = Items(kernel, arrays)
        self.crossing = Crossing(self.items, arrays)
        self.vectors = Vectors(kernel, self.items, arrays)
        self.sunk: dict[Op, list[Item]] = {}  # cheap values from outside that a loop computes for itself
        self.results: dict[tuple[Op, int], list[Op]] = {}
        self.owners: dict[Op, For] = {}  # of carried tiles, by the argument that stands for one
        for op in kernel.body.walk():
            if isinstance(op, For):
                self.owners.update(dict.fromkeys(op.body.args, op))
            if isinstance(op, Result):
                self.results.setdefault((op.source, op.index), []).append(op)

    def plan(self) -> KernelLoopPlan:
        body = self.loops(self.products.expand(self.kernel.body), frozenset(), False)
        return KernelLoopPlan(self.kernel, tuple(body), tuple(self.arrays.made), tuple(self.arrays.of.items()))

    def loops(self, items: Sequence[Item], bound: Bound, wide: bool) -> list[Node]:
        """The loops over the axes of ``items`` that are not ``bound``."""
        free = self.items.free(items, bound)
        if not free:
            return [n for item in items for n in self.leaf(item, bound, wide)]
        if any(map(_is_barrier, items)):
            return self.around(items, bound, wide, _is_barrier)
        if candidates := self.candidates(items, free, bound):
            return self.spread(items, bound, wide, self.vectors.axis(candidates, items, bound))
        if any(isinstance(i, For) for i in items):
            return self.around(items, bound, wide, lambda i: isinstance(i, For))
        return self.stages(items, bound, wide, free)

    def candidates(self, items: Sequence[Item], free: Sequence[str], bound: Bound) -> list[str]:
        """The axes that one loop around all of ``items`` may walk."""
        return [a for a in free if all(self.items.parallel(i, a) for i in items)]

    def leaf(self, item: Item, bound: Bound, wide: bool) -> list[Node]:
        match item:
            case LocalStore() | Store() | Step():
                return [Write(item)]
            case PackedProduct():
                return [Product(item)]
            case SortedArrays():
                return [Sorting(item)]
            case For():
                return self.repeat(item, bound, wide)
        return [Compute(item), *self.store_kept(item)]

    def store_kept(self, op: Op) -> list[Node]:
        if op in self.arrays.of and op not in self.arrays.written:
            self.arrays.written.add(op)
            return [Write(LocalStore(op, self.arrays.of[op]))]
        return []

    def around(self, items: Sequence[Item], bound: Bound, wide: bool, cut: Cut) -> list[Node]:
        """Cut the list at barriers.  Operands that are merely loaded are packed directly before their product."""
        items = [x for i in items for x in self.open(i, bound, cut)]
        if len(items) == 1:
            return self.leaf(items[0], bound, wide)
        parts: list[list[Item]] = []
        current: list[Item] = []
        packing: list[Item] = []
        for item in items:
            if cut(item):
                parts += [current, *([p] for p in packing), [item]]
                current, packing = [], []
            elif isinstance(item, LocalStore) and not item.carried and self.crossing.cheap(item.value, bound):
                packing.append(item)
            else:
                current.append(item)
        parts += [current, *([p] for p in packing)]
        nodes: list[Node] = []
        for part in self.crossing.close(parts, bound):
            if part and isinstance(part[-1], For) and cut(part[-1]):
                self.sunk[part[-1]] = part[:-1]
                nodes += self.repeat(part[-1], bound, wide)
            elif part:
                nodes += self.loops(part, bound, wide)
        return nodes

    def open(self, item: Item, bound: Bound, cut: Cut) -> list[Item]:
        """A loop whose carried tiles live in arrays starts by writing their initial values there."""
        if not isinstance(item, For) or item in self.items.opened or not cut(item):
            return [item]
        self.items.opened.add(item)
        stores: list[Item] = []
        for number, (arg, init) in enumerate(zip(item.body.args, item.init, strict=True)):
            assert isinstance(arg, Arg)
            if not unbound(arg, bound):
                continue
            results = self.results.get((item, number), [])
            if (handed := self.handed_through(item, number)) is not None:
                self.arrays.of.update(dict.fromkeys([arg, *results], handed))
                self.arrays.written.update(results)
                continue
            known = next((self.arrays.of[r] for r in results if r in self.arrays.of), None)
            storage = known or self.arrays.inside(arg.name, tile_type(arg), bound, "carried by a loop")
            self.arrays.of[arg] = storage
            for r in results:
                self.arrays.of[r] = storage
                self.arrays.written.add(r)
            stores.append(LocalStore(source(init), storage))
        return [*stores, item]

    def is_left_in(self, storage: Storage, value: Op) -> bool:
        """Whether ``value`` is what a loop leaves in ``storage``, that of the tile which it was handed."""
        inner = value.source if isinstance(value, Result) else None
        return isinstance(value, Result) and isinstance(inner, For) and self.handed_through(inner, value.index) is storage

    def lies_there(self, item: Item) -> bool:
        """Whether ``item`` is what a loop has left in its array, of which nothing is to be done."""
        return isinstance(item, Result) and item in self.arrays.written

    def handed_through(self, item: For, number: int) -> Storage | None:
        """The array of a tile that the loop around carries for this loop alone: it begins with it, and what it leaves is what
        that loop goes on with."""
        begun = source(item.init[number])
        owner = self.owners.get(begun)
        if owner is None or begun not in self.arrays.of:
            return None
        readers = [op for op in owner.body.ops if begun in map(source, op.operands) or any(
            begun in map(source, inner.operands) for region in op.regions for inner in region.walk())]  # fmt: skip
        left = source(yielded(owner.body)[owner.body.args.index(begun)])
        alone = readers == [item] and sum(source(v) is begun for v in item.init) == 1
        return self.arrays.of[begun] if alone and left in self.results.get((item, number), []) else None

    def spread(self, items: Sequence[Item], bound: Bound, wide: bool, axis: str) -> list[Node]:
        """One loop over ``axis`` around everything that has it."""
        inside = [i for i in items if axis in self.items.involved(i)]
        before = [i for i in items if axis not in self.items.involved(i)]
        before, inside = self.crossing.close([before, inside], bound)
        lanes = self.vectors.lanes(axis, inside, bound, wide)
        head = self.loops(before, bound, wide) if before else []
        inside = [i for i in inside if not self.lies_there(i)]
        return [*head, Walk(axis, lanes, tuple(self.inside(inside, bound, wide, axis, lanes)))] if inside else head

    def inside(self, items: Sequence[Item], bound: Bound, wide: bool, axis: str, lanes: int) -> list[Node]:
        """The body of a loop over ``axis``."""
        outer = self.arrays.vector
        if lanes > 1:
            self.arrays.vector = (axis, lanes)
        body = self.loops(items, bound | {axis}, wide or lanes > 1)
        self.arrays.vector = outer
        return body

    def stages(self, items: Sequence[Item], bound: Bound, wide: bool, free: Sequence[str]) -> list[Node]:
        """Loops over a reduced axis, each ending with reductions that the next ones need."""
        axis = next((a for a in free if self.reducible(items, a, bound)), None)
        if axis is None:
            return self.one_by_one(items, bound, wide)
        nodes: list[Node] = []
        for number, part in enumerate(self.crossing.close(self.levels(items, axis), bound)):
            if part and number % 2 == 0:
                nodes += self.loops(part, bound, wide)
            elif part:
                nodes += self.reducing(part, bound, wide, axis)
        return nodes

    def one_by_one(self, items: Sequence[Item], bound: Bound, wide: bool) -> list[Node]:
        """Results of a reduction are tiles themselves: each reduction gets loops of its own."""
        parts: list[list[Item]] = [[]]
        for item in items:
            if isinstance(item, Reduce):
                parts += [[item], []]
            else:
                parts[-1].append(item)
        return [n for part in self.crossing.close(parts, bound) if part for n in self.loops(part, bound, wide)]

    def levels(self, items: Sequence[Item], axis: str) -> list[list[Item]]:
        """The items by how many reductions along ``axis`` they wait for: in turns those outside of the loop and inside."""
        level = self.waits(items, axis)
        parts: list[list[Item]] = []
        for number in range(max(level.values()) + 1):
            here = [i for i in items if level[i] == number]
            outside = [i for i in here if axis not in self.items.involved(i)]
            parts += [outside, [i for i in here if i not in outside]]
        return parts

    def waits(self, items: Sequence[Item], axis: str) -> dict[Item, int]:
        """How many reductions along ``axis`` each item waits for."""
        level: dict[Item, int] = {}
        for item in items:
            before = [o for o in self.items.operands(item) if o in level]
            level[item] = max((level[o] + (isinstance(o, Reduce) and o.axis == axis) for o in before), default=0)
            if isinstance(item, LocalStore) and item.carried:  # stays behind all that reads the old value
                level[item] = max(level.values())
        return level

    def reducing(self, items: Sequence[Item], bound: Bound, wide: bool, axis: str) -> list[Node]:
        """One loop over ``axis``, with the reductions and running values along it."""
        reduces = tuple(i for i in items if isinstance(i, Reduce) and i.axis == axis)
        running = tuple(i for i in items if isinstance(i, Running) and i.axis == axis)
        lanes = 1 if running else self.vectors.lanes(axis, items, bound, wide)
        rest = [i for i in items if i not in reduces]
        self.crossing.wanted.update(source(r.x) for r in reduces)  # a reduction of its own perhaps, along another axis
        body = self.inside(rest, bound, wide, axis, lanes) if rest else []
        return [Walk(axis, lanes, tuple(body), reduces, running), *(n for r in reduces for n in self.store_kept(r))]

    def reducible(self, items: Sequence[Item], axis: str, bound: Bound) -> bool:
        reduces = [i for i in items if isinstance(i, Reduce | Running) and i.axis == axis]
        return bool(reduces) and all(not unbound(r, bound | {axis}) for r in reduces)

    def repeat(self, loop: For, bound: Bound, wide: bool) -> list[Node]:
        self.items.opened.add(loop)
        carried = tuple(self.arrays.of.get(a) for a in loop.body.args)
        items = [*self.sunk.get(loop, ()), *self.products.expand(loop.body)]
        step: list[tuple[Op, Op]] = []
        moved = self.moved(loop, items, bound)
        for arg, storage, value in zip(loop.body.args, carried, yielded(loop.body), strict=True):
            value = source(value)
            if arg in moved:
                continue
            if storage is None:
                step.append((arg, value))
                self.crossing.wanted.add(value)
            elif self.is_left_in(storage, value):
                # Where a loop over the tile goes around that loop, what it leaves is a variable, which is stored behind it.
                self.arrays.of.update(dict.fromkeys(self.results[value.source, value.index], storage))  # type: ignore[attr-defined]
            elif self.arrays.of.get(value) is not storage:
                self.hand_on(items, arg, LocalStore(value, storage, carried=True))
        body = self.loops(items, bound, wide)
        if step:
            body.append(Write(Step(tuple(step))))
        left = [r for i, storage in enumerate(carried) if storage is None for r in self.results.get((loop, i), [])]
        tail = [n for r in left if (kept := self.store_kept(r)) for n in (Compute(r), *kept)]
        return [Repeat(loop, carried, tuple(body)), *tail]

    def moved(self, loop: For, items: list[Item], bound: Bound) -> set[Op]:
        """The carried tiles of ``loop`` that become another one as it was, with their stores behind ``items``: each is
        overwritten when it has been handed on itself.  Those that cannot wait for that, since they go round or change on the
        way, are copied before."""
        lies = self.arrays.of
        pairs = [(arg, source(value)) for arg, value in zip(loop.body.args, yielded(loop.body), strict=True) if arg in lies]
        to = {arg: v for arg, v in pairs if isinstance(v, Arg) and v in lies and lies[v] is not lies[arg]}
        moved, changed = {*to}, {arg for arg, value in pairs if self.is_left_in(lies[arg], value)}
        for old in dict.fromkeys(v for v in to.values() if v in changed):
            to = self.copied(old, to, items, bound)
        while to:
            last = next((arg for arg in to if arg not in to.values()), None)
            if last is None:
                to = self.copied(next(iter(to)), to, items, bound)
            else:
                items.append(LocalStore(to.pop(last), lies[last], carried=True))
        return moved

    def copied(self, old: Op, to: Mapping[Op, Op], items: list[Item], bound: Bound) -> dict[Op, Op]:
        """``to`` with a copy, which is made before all ``items``, where ``old`` is to be read."""
        copy = Arg(f"old_{getattr(old, 'name', 'tile')}", old.type)
        self.arrays.of[copy] = self.arrays.inside(copy.name, tile_type(old), bound, "as it was before the step")
        self.arrays.written.add(copy)
        items.insert(0, LocalStore(old, self.arrays.of[copy]))
        return {arg: copy if value is old else value for arg, value in to.items()}

    def hand_on(self, items: list[Item], arg: Op, store: LocalStore) -> None:
        """Write the next value of a carried tile as soon as nothing reads the old one any more."""
        readers = [i for i, item in enumerate(items) if arg in reads_raw(item)]
        same = all(self.items.involved(items[i]) == set(axes_of(arg)) for i in readers)
        made = next((i for i, item in enumerate(items) if item is store.value), None)
        if made is None or not same:
            items.append(store)
        else:
            items.insert(max([made, *readers]) + 1, store)


def _is_barrier(item: Item) -> bool:
    whole = isinstance(item, PackedProduct | SortedArrays)
    return whole or (isinstance(item, For) and any(isinstance(o, Dot) for o in item.body.walk()))
