"""From a body on tiles to the loops of a plan.

The work goes from the outside in.  Given a list of operations and the axes already walked:

1. nothing is left to walk: the operations are computed one after the other;
2. there is a matrix product: the list is cut around it, since a product works on whole packed tiles;
3. an axis is *parallel* in all operations: one loop over it goes around them, a vector loop for the last such axis;
4. otherwise an axis is reduced along: the list is cut into stages, each a loop that ends with its reductions known.

A value used beyond the loop that computes it is kept in local memory, or computed again where that is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from portakern.emit.running import Running
from portakern.errors import LoweringError
from portakern.ir.core import Arg, Block, Op, Result, Yield, yielded
from portakern.ir.size import divides
from portakern.ir.tile import (
    Binary,
    Bitcast,
    Broadcast,
    BufferType,
    Cast,
    Compare,
    Const,
    Coord,
    Dot,
    Extent,
    For,
    Kernel,
    Load,
    Mask,
    Permute,
    Reduce,
    Select,
    Start,
    Store,
    TileType,
    Unary,
    buffer_type,
    tile_type,
)  # fmt: skip

from .plan import Compute, Item, KernelPlan, Multiply, Node, Product, Put, Repeat, Step, Storage, Walk, Write

Bound = frozenset[str]

NARROW = ("f16", "bf16")
_CHEAP_UNARY = {"neg", "abs", "not", "isnan"}
_CHEAP_BINARY = {"add", "sub", "mul", "max", "min", "and", "or", "xor"}
_CHEAP_OPS = 7
_ELEMENTWISE = (Unary, Binary, Compare, Select, Cast, Bitcast)


def source(op: Op) -> Op:
    """The operation whose value ``op`` hands on: a broadcast, permutation or mask changes nothing for one element that
    is inside the extent, and 16-bit floats are held as f32 already."""
    while True:
        if isinstance(op, Broadcast | Permute | Mask) or (isinstance(op, Cast) and _same_register(op)):
            op = op.x
        else:
            return op


def _same_register(cast: Cast) -> bool:
    old = tile_type(cast.x).dtype
    return old == cast.dtype or (old in NARROW and cast.dtype == "f32")


def is_leaf(op: Op) -> bool:
    """Values that are written where they are used: constants, coordinates, arguments."""
    return isinstance(op, Const | Extent | Start | Coord | Arg)


def stored_value(store: Store) -> Op:
    """What a store writes: a cast to a 16-bit float directly before it is the store's own rounding."""
    value = store.value
    while isinstance(value, Broadcast | Permute | Mask):
        value = value.x
    if isinstance(value, Cast) and value.dtype in NARROW and tile_type(value.x).dtype == "f32":
        value = value.x
    return source(value)


def axes_of(op: Op) -> tuple[str, ...]:
    return op.type.axes if isinstance(op.type, TileType) else ()


def lead_axis(kernel: Kernel, access: Load | Store) -> str | None:
    """The axis along which neighbouring elements of ``access`` lie side by side in memory."""
    have = buffer_type(access.buffer)
    for index, stride in zip(access.indices, have.element_strides, strict=True):
        if stride == 1 and index.terms:
            last = index.terms[-1]
            return last.axis if (last.scale, last.div, last.mod) == (1, 1, 0) else None
    return None


def form(kernel: Kernel, lanes: int = 16, rows: int = 8, vectors: int = 2) -> KernelPlan:
    """The plan of ``kernel`` for vectors of ``lanes`` and a register tile of ``rows`` x (``lanes`` * ``vectors``)."""
    former = _Former(kernel, lanes, rows, vectors)
    body = former.form(former.expand(kernel.body), frozenset(), False)
    return KernelPlan(kernel, tuple(body), tuple(former.storages), tuple(former.storage.items()))


class _Former:
    def __init__(self, kernel: Kernel, lanes: int, rows: int, vectors: int) -> None:
        self.kernel = kernel
        self.lanes, self.rows, self.vectors = lanes, rows, vectors
        self.storages: list[Storage] = []
        self.storage: dict[Op, Storage] = {}
        self.kept: set[Op] = set()
        self.wanted: set[Op] = set()  # values that a sibling list reads from a variable
        self.vector: tuple[str, int] | None = None  # the axis walked by whole vectors around the current list
        self.opened: set[Op] = set()
        self.sunk: dict[Op, list[Item]] = {}  # cheap values from outside that a loop computes for itself
        self.results: dict[tuple[Op, int], list[Op]] = {}
        self.uses: dict[Op, list[Op]] = {}
        self.packs: dict[Op, list[tuple[str, ...]]] = {}
        self.packed: dict[tuple[Op, tuple[str, ...]], Storage] = {}
        for op in kernel.body.walk():
            if isinstance(op, Result):
                self.results.setdefault((op.source, op.index), []).append(op)
            if isinstance(op, Dot):
                a_axes, b_axes = self.operand_axes(op)
                self.packs.setdefault(self.left(op), []).append(a_axes)
                self.packs.setdefault(self.right(op), []).append(b_axes)
            for operand in op.operands:
                self.uses.setdefault(operand, []).append(op)

    # ---- storage

    def store_for(self, hint: str, dims: Sequence[tuple[str, int]], dtype: str, purpose: str,
                  lane_axis: str | None = None) -> Storage:
        kind = "f32" if dtype in NARROW else "i32" if dtype in ("bool", "i8", "i16", "u8", "u16") else dtype
        shape = [n for _, n in dims] or [1]
        # Whole vectors are written at the end of a row; a matrix product walks columns two vectors at a time.
        unit = self.lanes if shape[-1] <= self.lanes else self.lanes * self.vectors
        shape[-1] = -(-shape[-1] // unit) * unit
        taken = {s.name for s in self.storages}
        name, number = hint, 2
        while name in taken:
            name, number = f"{hint}{number}", number + 1
        made = Storage(name, tuple(dims), kind, tuple(shape), purpose, lane_axis)
        self.storages.append(made)
        return made

    def keep(self, op: Op, bound: Bound) -> None:
        if op in self.storage:
            return
        t = tile_type(op)
        dims = [d for d in t.dims if d[0] not in bound]
        lane_axis = None
        if self.vector and self.vector[0] in t.axes and self.vector[0] in bound:
            dims.append(self.vector)
            lane_axis = self.vector[0]
        self.storage[op] = self.store_for(_hint(op), dims, t.dtype, "used again by a later loop", lane_axis)

    # ---- lists of items

    def expand(self, block: Block) -> list[Item]:
        """The operations of a block that need code, with products split into packing and multiplying."""
        items: list[Item] = []
        for op in block.ops:
            if isinstance(op, Dot):
                items += self.product(op)
            elif not (is_leaf(op) or isinstance(op, Yield) or source(op) is not op):
                items.append(op)
            for axes in self.packs.get(op, ()):
                items += self.pack(op, axes)
        return items

    def left(self, dot: Dot) -> Op:
        return dot.rhs if self.swapped(dot) else dot.lhs

    def right(self, dot: Dot) -> Op:
        return dot.lhs if self.swapped(dot) else dot.rhs

    def swapped(self, dot: Dot) -> bool:
        """Whether the accumulator's last dim is the free dim of ``lhs``."""
        dims = axes_of(dot)
        return bool(dims) and dims[-1] in axes_of(dot.lhs)

    def operand_axes(self, dot: Dot) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The dims of the packed operands: (m, k) and (k, n); an axis whose tile is 1 is absent."""
        k = dot.axis
        m = tuple(a for a in axes_of(self.left(dot)) if a != k)
        n = tuple(a for a in axes_of(self.right(dot)) if a != k)
        if len(m) > 1 or len(n) > 1:
            dot.fail("a product over operands of more than two dims has no rule here")
        return (*m, k), (k, *n)

    def pack(self, op: Op, axes: tuple[str, ...]) -> list[Item]:
        if (op, axes) in self.packed:
            return []
        t = tile_type(op)
        storage = self.store_for(_hint(source(op)) + "_pack", [(a, t.size(a)) for a in axes], t.dtype,
                                 "operand of a product, packed and widened")
        self.packed[op, axes] = storage
        return [Put(source(op), storage)]

    def product(self, dot: Dot) -> list[Item]:
        items: list[Item] = []
        a_axes, b_axes = self.operand_axes(dot)
        for operand, axes in ((self.left(dot), a_axes), (self.right(dot), b_axes)):
            if isinstance(operand, Arg):
                items += self.pack(operand, axes)
        c = self.in_place(dot)
        acc = source(dot.acc)
        if c is None:
            t = tile_type(dot)
            c = self.store_for("acc" if isinstance(acc, Arg) else "products", t.dims, t.dtype, "accumulator of a product")
        if self.storage.get(acc) is not c:
            items.append(Put(acc, c))
        self.storage[dot] = c
        self.kept.add(dot)
        m = next((a for a in a_axes if a != dot.axis), None)
        n = next((a for a in b_axes if a != dot.axis), None)
        vectors = self.vectors if c.shape[-1] % (self.lanes * self.vectors) == 0 else 1
        multiply = Multiply(dot, self.packed[self.left(dot), a_axes], self.packed[self.right(dot), b_axes], c, m, n,
                            self.rows, self.lanes, vectors)
        return [*items, multiply]

    def in_place(self, dot: Dot) -> Storage | None:
        """The array of the carried value that the product may add to in place: its accumulator is that value, perhaps
        scaled element by element, and nothing reads the old value after."""
        for arg, storage in list(self.storage.items()):
            if isinstance(arg, Arg) and self._feeds(arg, dot):
                return storage
        return None

    def _feeds(self, arg: Op, dot: Dot) -> bool:
        value, dims = arg, tile_type(arg).dims
        while True:
            users = self.uses.get(value, [])
            if len(users) != 1:
                return False
            user = users[0]
            if user is dot:
                return dot.acc is value
            if not isinstance(user, (*_ELEMENTWISE, Broadcast, Mask)) or tile_type(user).dims != dims:
                return False
            value = user

    def operands(self, item: Item) -> list[Op]:
        """The values an item reads, each at its source; leaves are left out."""
        match item:
            case Put(value):
                found: Iterable[Op] = (value,)
            case Multiply() | Step():
                return []
            case Store():
                found = (stored_value(item),)
            case For():
                init = [v for i, v in enumerate(item.init) if item not in self.opened or not self._stored(item, i)]
                inner = set(item.body.args) | set(item.body.walk())
                outside = [o for op in item.body.walk() for o in read_by(op) if o not in inner]
                found = (*init, *(x for x in (item.lo, item.hi) if x is not None), *outside)
            case Result():
                return [item.source]
            case _:
                found = item.operands
        return [s for s in map(source, found) if not is_leaf(s) and not isinstance(s.type, BufferType)]

    def _stored(self, loop: For, number: int) -> bool:
        return loop.body.args[number] in self.storage

    def involved(self, item: Item) -> set[str]:
        match item:
            case Put(storage=storage):
                return set(storage.axes)
            case Multiply(_, a, b):
                return {*a.axes, *b.axes}
            case Step():
                return set()
            case Store():
                return set(axes_of(item.value))
            case Reduce():
                return set(axes_of(item.x))
            case Dot():
                return {*axes_of(item.lhs), *axes_of(item.rhs)}
            case Result() if item.source not in self.opened:
                return self.involved(item.source)  # part of its loop
            case For():
                inner = set().union(*(self.involved(op) for op in item.body.walk() if not isinstance(op, Result)))
                return (inner | {a for v in item.init for a in axes_of(v)}) - {item.axis}
        return set(axes_of(item))

    def parallel(self, item: Item, axis: str) -> bool:
        match item:
            case Reduce() | Running():
                return item.axis != axis
            case Multiply() | Dot():
                return axis not in self.involved(item)
            case For():
                if axis not in self.involved(item):
                    return True
                carried = all(axis in axes_of(v) for v in item.init)
                return carried and all(self.parallel(op, axis) for op in item.body.walk())
        return True

    def unbound(self, op: Op, bound: Bound) -> bool:
        return any(a not in bound for a in axes_of(op))

    # ---- forming

    def form(self, items: Sequence[Item], bound: Bound, wide: bool) -> list[Node]:
        free = self.free(items, bound)
        if not free:
            return [n for item in items for n in self.leaf(item, bound, wide)]
        if any(self.is_barrier(i) for i in items):
            return self.around(items, bound, wide, self.is_barrier)
        candidates = [a for a in free if all(self.parallel(i, a) for i in items)]
        if candidates:
            return self.spread(items, bound, wide, self.choose(candidates, items, bound))
        if any(isinstance(i, For) for i in items):
            return self.around(items, bound, wide, lambda i: isinstance(i, For))
        return self.stages(items, bound, wide, free)

    def free(self, items: Sequence[Item], bound: Bound) -> list[str]:
        used = set().union(*(self.involved(i) for i in items)) - bound
        return [a.name for a in self.kernel.axes if a.name in used]

    def is_barrier(self, item: Item) -> bool:
        return isinstance(item, Multiply) or (isinstance(item, For) and any(isinstance(o, Dot) for o in item.body.walk()))

    def leaf(self, item: Item, bound: Bound, wide: bool) -> list[Node]:
        match item:
            case Put() | Store() | Step():
                return [Write(item)]
            case Multiply():
                return [Product(item)]
            case For():
                return self.repeat(item, bound, wide)
        return [Compute(item), *self.put_kept(item)]

    def put_kept(self, op: Op) -> list[Node]:
        if op in self.storage and op not in self.kept:
            self.kept.add(op)
            return [Write(Put(op, self.storage[op]))]
        return []

    def around(self, items: Sequence[Item], bound: Bound, wide: bool, cut) -> list[Node]:
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
            elif isinstance(item, Put) and not item.carried and self.cheap(item.value, bound):
                packing.append(item)
            else:
                current.append(item)
        parts += [current, *([p] for p in packing)]
        nodes: list[Node] = []
        for part in self.close(parts, bound):
            if part and isinstance(part[-1], For) and cut(part[-1]):
                self.sunk[part[-1]] = part[:-1]
                nodes += self.repeat(part[-1], bound, wide)
            elif part:
                nodes += self.form(part, bound, wide)
        return nodes

    def open(self, item: Item, bound: Bound, cut) -> list[Item]:
        """A loop whose carried tiles live in arrays starts by writing their initial values there."""
        if not isinstance(item, For) or item in self.opened or not cut(item):
            return [item]
        self.opened.add(item)
        puts: list[Item] = []
        for number, (arg, init) in enumerate(zip(item.body.args, item.init, strict=True)):
            assert isinstance(arg, Arg)
            t = tile_type(arg)
            dims = [d for d in t.dims if d[0] not in bound]
            if not dims:
                continue
            lane_axis = None
            if self.vector and self.vector[0] in t.axes:
                dims.append(self.vector)
                lane_axis = self.vector[0]
            results = self.results.get((item, number), [])
            known = next((self.storage[r] for r in results if r in self.storage), None)
            storage = known or self.store_for(arg.name, dims, t.dtype, "carried by a loop", lane_axis)
            self.storage[arg] = storage
            for r in results:
                self.storage[r] = storage
                self.kept.add(r)
            puts.append(Put(source(init), storage))
        return [*puts, item]

    def spread(self, items: Sequence[Item], bound: Bound, wide: bool, axis: str) -> list[Node]:
        """One loop over ``axis`` around everything that has it."""
        inside = [i for i in items if axis in self.involved(i)]
        before = [i for i in items if axis not in self.involved(i)]
        before, inside = self.close([before, inside], bound)
        lanes = self.lanes_for(axis, inside, bound, wide)
        head = self.form(before, bound, wide) if before else []
        return [*head, Walk(axis, lanes, tuple(self.inside(inside, bound, wide, axis, lanes)))]

    def inside(self, items: Sequence[Item], bound: Bound, wide: bool, axis: str, lanes: int) -> list[Node]:
        """The body of a loop over ``axis``."""
        outer = self.vector
        if lanes > 1:
            self.vector = (axis, lanes)
        body = self.form(items, bound | {axis}, wide or lanes > 1)
        self.vector = outer
        return body

    def stages(self, items: Sequence[Item], bound: Bound, wide: bool, free: Sequence[str]) -> list[Node]:
        """Loops over a reduced axis, each ending with reductions that the next ones need."""
        axis = next((a for a in free if self.reducible(items, a, bound)), None)
        if axis is None:  # results of a reduction are tiles themselves: each reduction gets loops of its own
            parts: list[list[Item]] = [[]]
            for item in items:
                if isinstance(item, Reduce):
                    parts += [[item], []]
                else:
                    parts[-1].append(item)
            return [n for part in self.close(parts, bound) if part for n in self.form(part, bound, wide)]
        level: dict[Item, int] = {}
        for item in items:
            before = [o for o in self.operands(item) if o in level]
            level[item] = max((level[o] + (isinstance(o, Reduce) and o.axis == axis) for o in before), default=0)
            if isinstance(item, Put) and item.carried:  # stays behind all that reads the old value
                level[item] = max(level.values())
        parts = []
        for number in range(max(level.values()) + 1):
            here = [i for i in items if level[i] == number]
            parts += [[i for i in here if axis not in self.involved(i)], [i for i in here if axis in self.involved(i)]]
        nodes: list[Node] = []
        for number, part in enumerate(self.close(parts, bound)):
            if part and number % 2 == 0:
                nodes += self.form(part, bound, wide)
            elif part:
                reduces = tuple(i for i in part if isinstance(i, Reduce) and i.axis == axis)
                running = tuple(i for i in part if isinstance(i, Running) and i.axis == axis)
                lanes = 1 if running else self.lanes_for(axis, part, bound, wide)
                rest = [i for i in part if i not in reduces]
                self.wanted.update(source(r.x) for r in reduces)  # a reduction of its own perhaps, along another axis
                body = self.inside(rest, bound, wide, axis, lanes) if rest else []
                nodes.append(Walk(axis, lanes, tuple(body), reduces, running))
                nodes += [n for r in reduces for n in self.put_kept(r)]
        return nodes

    def reducible(self, items: Sequence[Item], axis: str, bound: Bound) -> bool:
        reduces = [i for i in items if isinstance(i, Reduce | Running) and i.axis == axis]
        return bool(reduces) and all(not self.unbound(r, bound | {axis}) for r in reduces)

    def repeat(self, loop: For, bound: Bound, wide: bool) -> list[Node]:
        self.opened.add(loop)
        carried = tuple(self.storage.get(a) for a in loop.body.args)
        items = [*self.sunk.get(loop, ()), *self.expand(loop.body)]
        step: list[tuple[Op, Op]] = []
        for arg, storage, value in zip(loop.body.args, carried, yielded(loop.body), strict=True):
            value = source(value)
            if storage is None:
                step.append((arg, value))
                self.wanted.add(value)
            elif self.storage.get(value) is not storage:
                if isinstance(value, Arg) and value in self.storage:
                    where = str(loop.loc or "")
                    raise LoweringError("a loop that exchanges carried tiles has no rule here", where=where)
                self.hand_on(items, arg, Put(value, storage, carried=True))
        body = self.form(items, bound, wide)
        if step:
            body.append(Write(Step(tuple(step))))
        tail = [n for i in range(len(carried)) for r in self.results.get((loop, i), []) if carried[i] is None
                for n in self.put_kept(r)]
        return [Repeat(loop, carried, tuple(body)), *tail]

    def hand_on(self, items: list[Item], arg: Op, put: Put) -> None:
        """Write the next value of a carried tile as soon as nothing reads the old one any more."""
        readers = [i for i, item in enumerate(items) if arg in self.reads_raw(item)]
        same = all(self.involved(items[i]) == set(axes_of(arg)) for i in readers)
        made = next((i for i, item in enumerate(items) if item is put.value), None)
        if made is None or not same:
            items.append(put)
        else:
            items.insert(max([made, *readers]) + 1, put)

    def reads_raw(self, item: Item) -> set[Op]:
        """What an item reads, arguments among it."""
        if isinstance(item, Put):
            return {item.value}
        if isinstance(item, For):
            return {source(o) for op in item.body.walk() for o in read_by(op)} | {source(v) for v in item.operands}
        return {source(o) for o in read_by(item)} if isinstance(item, Op) else set()

    # ---- values that cross from one loop to another

    def close(self, parts: Sequence[Sequence[Item]], bound: Bound) -> list[list[Item]]:
        """Each part with what it needs: cheap values computed again, others read from where they are kept."""
        home = {i: n for n, part in enumerate(parts) for i in part if isinstance(i, Op)}
        for number, part in enumerate(parts):
            for item in part:
                for o in self.operands(item):
                    self.crossing(o, home, number, bound)
        closed = [self.with_copies(part, number, home, bound) for number, part in enumerate(parts)]
        return [self.without_dead(part) for part in closed]

    def crossing(self, op: Op, home: dict[Op, int], number: int, bound: Bound) -> None:
        if home.get(op, number) == number or isinstance(op, For):
            return
        if not self.unbound(op, bound):
            self.wanted.add(op)
        elif op in self.storage:
            return
        elif self.cheap(op, bound):
            for o in self.operands(op):
                self.crossing(o, home, number, bound)
        else:
            self.keep(op, bound)

    def with_copies(self, part: Sequence[Item], number: int, home: dict[Op, int], bound: Bound) -> list[Item]:
        copies: dict[Op, None] = {}

        def need(op: Op) -> None:
            if home.get(op, number) == number or op in copies or op in self.storage or not self.unbound(op, bound):
                return
            if isinstance(op, For):
                return
            for o in self.operands(op):
                need(o)
            copies[op] = None

        for item in part:
            for o in self.operands(item):
                need(o)
        return [*copies, *part]

    def without_dead(self, part: Sequence[Item]) -> list[Item]:
        used: set[Op] = set()
        alive: list[Item] = []
        for item in reversed(part):
            sink = not isinstance(item, Op) or isinstance(item, Store | For) or item in self.wanted
            if sink or item in used or (item in self.storage and item not in self.kept):
                alive.append(item)
                used.update(self.operands(item))
        return alive[::-1]

    def cheap(self, op: Op, bound: Bound) -> bool:
        """Whether computing ``op`` again costs less than keeping it: a few loads and simple arithmetic."""
        seen: set[Op] = set()

        def visit(o: Op) -> bool:
            o = source(o)
            if isinstance(o, Arg):
                return o not in self.storage  # a carried array may have moved on
            if o in seen or is_leaf(o):
                return True
            seen.add(o)
            if o in self.storage or (o is not op and not self.unbound(o, bound)):
                return True
            if isinstance(o, Load):
                return not o.gathers
            simple = (
                isinstance(o, Cast | Compare | Select | Bitcast)
                or (isinstance(o, Unary) and o.fn in _CHEAP_UNARY)
                or (isinstance(o, Binary) and o.fn in _CHEAP_BINARY)
            )
            return simple and len(seen) <= _CHEAP_OPS and all(map(visit, o.operands))

        return visit(op)

    # ---- which axis is the vector

    def choose(self, candidates: Sequence[str], items: Sequence[Item], bound: Bound) -> str:
        vector = self.contiguous(items, bound)
        rest = [a for a in candidates if a != vector] or list(candidates)
        return max(rest, key=lambda a: sum(a in self.involved(i) for i in items))

    def lanes_for(self, axis: str, items: Sequence[Item], bound: Bound, wide: bool) -> int:
        if wide or self.contiguous(items, bound) != axis:
            return 1
        a = self.kernel.axis[axis]
        reach = min(a.tile, a.extent) if isinstance(a.extent, int) else a.tile
        return min(self.lanes, 1 << max(reach - 1, 0).bit_length())

    def contiguous(self, items: Sequence[Item], bound: Bound) -> str | None:
        """The axis along which most of the memory these items touch is contiguous; stores count more."""
        score = dict.fromkeys(self.free(items, bound), 0)

        def count(axis: str | None, weight: int, axes: Iterable[str]) -> None:
            if axis in score:
                score[axis] += weight * prod(self.kernel.axis[a].tile for a in axes)  # type: ignore[index]

        for item in items:
            for op in item.body.walk() if isinstance(item, For) else (item,):
                if isinstance(op, Load | Store):
                    count(lead_axis(self.kernel, op), 3 if isinstance(op, Store) else 2, self.involved(op))
                if isinstance(op, Put) and op.storage.axes:
                    count(op.storage.axes[-1], 3, op.storage.axes)
                if isinstance(op, Op | Put):
                    for o in self.operands(op):
                        if o in self.storage and self.storage[o].axes:
                            count(self.storage[o].axes[-1], 1, self.storage[o].axes)
        order = list(score)
        return max(order, key=lambda a: (score[a], order.index(a)), default=None)


def read_by(op: Op) -> tuple[Op, ...]:
    """What an operation reads; the operands of a product are packed where they are defined."""
    if isinstance(op, Dot):
        return (op.acc,)
    return (*op.operands, stored_value(op)) if isinstance(op, Store) else op.operands


def _hint(op: Op) -> str:
    match op:
        case Load():
            return str(getattr(op.buffer, "name", "tile"))
        case Reduce():
            return {"sum": "total", "max": "top", "min": "bottom", "prod": "product"}.get(op.fn, op.fn)
        case Running(fn):
            return f"running_{fn}"
        case Unary(fn):
            return {"exp": "e", "not": "inverse", "rsqrt": "scale", "sqrt": "root"}.get(fn, fn)
        case Binary(fn):
            return {"add": "sum", "sub": "diff", "mul": "scaled", "div": "ratio", "max": "larger", "min": "smaller",
                    "and": "both", "or": "either", "xor": "odd"}.get(fn, fn)
        case Cast():
            return _hint(source(op.x))
        case Select():
            return "chosen"
        case Arg():
            return op.name
    return "value"


def full(kernel: Kernel, axis: str, lanes: int) -> bool:
    """Whether every vector of ``lanes`` along ``axis`` lies inside its tile and extent."""
    a = kernel.axis[axis]
    return divides(lanes, a.extent) and (a.kind == "whole" or a.tile % lanes == 0)
