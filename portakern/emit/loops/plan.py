"""The plan of a kernel for one thread: a tree of loops over single elements and vectors, made from a body on whole tiles.

A tile value never exists as a whole unless the plan says so.  Elementwise chains, reductions and stores that walk the
same axes share one loop; a value that a later loop needs again is *kept* in a local array, or computed anew
where that is cheap.  The operands of a matrix product are packed into arrays first.

Every loop runs over the coordinates inside the axis's extent only, so that pads and masks need no code: what lies
outside is never computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from portakern.dtypes import dtype
from portakern.emit.running import Running
from portakern.ir.core import Op
from portakern.ir.tile import Dims, Dot, For, Kernel, Reduce, SortBy, Store


@dataclass(frozen=True, eq=False)
class Storage:
    """A local array that holds a tile: its dims, the dtype of its elements, the rounded-up shape."""

    name: str
    dims: Dims
    dtype: str
    shape: tuple[int, ...]
    purpose: str
    lane_axis: str | None = None
    """The last dim where the array holds one vector of it only: it is used within one step of a loop over vectors."""

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * dtype(self.dtype).bytes

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(a for a, _ in self.dims)

    def __str__(self) -> str:
        held = ", ".join(f"{a}:{n}" for a, n in self.dims)
        return f"{self.name}[{held}] {self.dtype}, {'x'.join(map(str, self.shape))}, {self.bytes} bytes: {self.purpose}"


@dataclass(frozen=True, eq=False)
class LocalStore:
    """Write ``value`` to ``storage``, element by element.  ``carried`` marks the end of a loop's step."""

    value: Op
    storage: Storage
    carried: bool = False


@dataclass(frozen=True, eq=False)
class Join(LocalStore):
    """``storage = fn(storage, value)``, element by element: one more step of a reduction that lies in an array."""

    fn: str = "sum"
    dtype: str = "f32"


@dataclass(frozen=True, eq=False)
class PackedProduct:
    """``c += a b`` on packed arrays, a register tile of ``rows`` x ``columns`` at a time."""

    dot: Dot
    a: Storage
    b: Storage
    c: Storage
    m: str | None
    n: str | None
    rows: int
    lanes: int
    vectors: int

    @property
    def paired(self) -> bool:
        """Whether the operands are as narrow as they were loaded, and two products are taken at a time."""
        return self.a.dtype != self.c.dtype

    @property
    def turned(self) -> tuple[bool, bool]:
        """Whether the operands lie as [k, m] and as [n, k]."""
        k = self.dot.axis
        return self.m is not None and self.a.axes[0] == k, self.n is not None and self.b.axes[-1] == k


@dataclass(frozen=True, eq=False)
class SortedArrays:
    """Elements of arrays in the order of those in ``keys``: ``moved`` has the arrays of the tiles of a sort that somebody asks
    for (the keys may be among them), each with that of the result (``None``: the order itself is asked for)."""

    sort: SortBy
    keys: Storage
    moved: tuple[tuple[Storage | None, Storage], ...]


@dataclass(frozen=True, eq=False)
class Step:
    """The values that a loop's step hands on in variables: (argument, new value)."""

    values: tuple[tuple[Op, Op], ...]


Item = Op | LocalStore | PackedProduct | SortedArrays | Step


@dataclass(frozen=True, eq=False)
class Compute:
    """The value of one operation at the current element (or vector of elements)."""

    op: Op


@dataclass(frozen=True, eq=False)
class Write:
    """A store, to memory or to a local array, or the end of a step, at the current element."""

    what: Store | LocalStore | Step


@dataclass(frozen=True, eq=False)
class Walk:
    """A loop over the elements of an axis's current tile, ``lanes`` at a time; reductions along it accumulate, and running
    values go from element to element (``reverse``: from the last one)."""

    axis: str
    lanes: int
    body: tuple[Node, ...]
    accumulate: tuple[Reduce, ...] = ()
    running: tuple[Running, ...] = ()

    @property
    def reverse(self) -> bool:
        return any(r.reverse for r in self.running)


@dataclass(frozen=True, eq=False)
class Repeat:
    """A ``For``: a loop over the tiles of an axis.  ``carried`` says where each carried value lives."""

    loop: For
    carried: tuple[Storage | None, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Product:
    """The register-tiled matrix product."""

    what: PackedProduct


@dataclass(frozen=True, eq=False)
class Sorting:
    """A line of local arrays that is sorted in place."""

    what: SortedArrays


Node = Compute | Write | Walk | Repeat | Product | Sorting


@dataclass(frozen=True, eq=False)
class KernelLoopPlan:
    kernel: Kernel
    body: tuple[Node, ...]
    storages: tuple[Storage, ...]
    stored: tuple[tuple[Op, Storage], ...]

    @property
    def local_bytes(self) -> int:
        """Of the arrays, and of the two orders that a sort goes through."""
        orders = sum(2 * 4 * node.what.keys.count for node in self.nodes() if isinstance(node, Sorting))
        return sum(s.bytes for s in self.storages) + orders

    def nodes(self) -> Iterator[Node]:
        """All nodes, those inside loops too."""
        return _inside(self.body)

    def __str__(self) -> str:
        lines = [f"kernel {self.kernel.name}: {self.local_bytes} bytes of local arrays"]
        lines += [f"  keep {s}" for s in self.storages]
        for node in self.body:
            lines += _show(node, 1)
        return "\n".join(lines)


def _inside(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Walk | Repeat):
            yield from _inside(node.body)


@dataclass(frozen=True, eq=False)
class LoopPlan:
    """The plans of a program's kernels, in order."""

    kernels: tuple[KernelLoopPlan, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.kernels))


def _show(node: Node, depth: int) -> list[str]:
    pad = "  " * depth
    match node:
        case Compute(op):
            return [f"{pad}{_word(op)}: {op.type}"]
        case Write(Join(value, storage, fn=fn)):
            return [f"{pad}{storage.name} <- {fn} with {_word(value)}"]
        case Write(LocalStore(value, storage)):
            return [f"{pad}{storage.name} <- {_word(value)}"]
        case Write(Store() as store):
            return [f"{pad}store {getattr(store.buffer, 'name', '')}"]
        case Write(Step(values)):
            return [f"{pad}next {', '.join(getattr(a, 'name', '') for a, _ in values)}"]
        case Product(m):
            dtype_ = m.dot.lhs.type.dtype  # type: ignore[union-attr]
            how = f"pairs of {dtype_}" if m.paired else f"widened {dtype_}"
            how = f"{m.rows}x{m.lanes * m.vectors} register tile, {m.lanes}-lane multiply-add on {how}"
            how = how if m.rows > 1 else f"a function, on widened {dtype_}"
            return [f"{pad}{m.c.name} += {m.a.name} {m.b.name} over {m.dot.axis}: {how}"]
        case Sorting(what):
            return [f"{pad}sort {', '.join(s.name for _, s in what.moved)} by {what.keys.name} along {what.sort.axis}"]
        case Walk(axis, lanes, body, accumulate, running):
            wide = f" by {lanes} lanes" if lanes > 1 else ""
            found = f", reducing {', '.join(r.fn for r in accumulate)}" if accumulate else ""
            back = " backwards" if node.reverse else ""
            found += f", running {', '.join(r.fn for r in running)}" if running else ""
            return [f"{pad}walk {axis}{back}{wide}{found}", *(x for n in body for x in _show(n, depth + 1))]
        case Repeat(loop, carried, body):
            held = ", ".join(s.name if s else "a variable" for s in carried)
            return [f"{pad}loop over tiles of {loop.axis}" + (f", carrying {held}" if held else ""),
                    *(x for n in body for x in _show(n, depth + 1))]
    raise AssertionError(node)


def _word(op: Op) -> str:
    return str(getattr(op, "fn", "") or getattr(op, "name", "") or op.mnemonic())
