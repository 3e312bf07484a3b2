"""What the items of a list read, which axes they walk, and along which of them they are parallel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from portakern.emit.running import Running
from portakern.ir.core import Op, Result
from portakern.ir.tile import BufferType, Dot, For, Kernel, Reduce, Store

from .arrays import LocalArrays
from .elements import Bound, axes_of, is_leaf, read_by, source, stored_value
from .plan import Item, LocalStore, PackedProduct, SortedArrays, Step


class Items:
    """``opened`` are the loops whose carried tiles have got their arrays and first values."""

    def __init__(self, kernel: Kernel, arrays: LocalArrays) -> None:
        self.kernel, self.arrays = kernel, arrays
        self.opened: set[Op] = set()

    def operands(self, item: Item) -> list[Op]:
        """The values an item reads, each at its source; leaves are left out."""
        match item:
            case LocalStore(value):
                found: Iterable[Op] = (value,)
            case PackedProduct() | SortedArrays() | Step():
                return []
            case Store():
                found = (stored_value(item),)
            case For():
                init = [v for arg, v in zip(item.body.args, item.init, strict=True)
                        if item not in self.opened or arg not in self.arrays.of]
                inner = set(item.body.args) | set(item.body.walk())
                outside = [o for op in item.body.walk() for o in read_by(op) if o not in inner]
                found = (*init, *(x for x in (item.lo, item.hi) if x is not None), *outside)
            case Result():
                return [item.source]
            case _:
                found = item.operands
        return [s for s in map(source, found) if not is_leaf(s) and not isinstance(s.type, BufferType)]

    def involved(self, item: Item) -> set[str]:
        match item:
            case LocalStore(storage=storage):
                return set(storage.axes)
            case PackedProduct(_, a, b):
                return {*a.axes, *b.axes}
            case SortedArrays(keys=keys, moved=moved):
                return {*keys.axes, *(a for _, into in moved for a in into.axes)}
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
                walked = {item.axis, *(op.axis for op in item.body.walk() if isinstance(op, For))}
                return (inner | {a for v in item.init for a in axes_of(v)}) - walked
        return set(axes_of(item))

    def parallel(self, item: Item, axis: str) -> bool:
        match item:
            case Reduce() | Running():
                return item.axis != axis
            case PackedProduct() | SortedArrays() | Dot():
                return axis not in self.involved(item)
            case For():
                if axis not in self.involved(item):
                    return True
                carried = all(axis in axes_of(v) for v in item.init)
                return carried and all(self.parallel(op, axis) for op in item.body.walk())
        return True

    def free(self, items: Sequence[Item], bound: Bound) -> list[str]:
        used = set().union(*(self.involved(i) for i in items)) - bound
        return [a.name for a in self.kernel.axes if a.name in used]


def reads_raw(item: Item) -> set[Op]:
    """What an item reads, arguments among it."""
    if isinstance(item, LocalStore):
        return {item.value}
    if isinstance(item, For):
        return {source(o) for op in item.body.walk() for o in read_by(op)} | {source(v) for v in item.operands}
    return {source(o) for o in read_by(item)} if isinstance(item, Op) else set()
