"""Matrix products and sorts in a list of operations: operands are packed into arrays where they are defined, then multiplied
(what is sorted: sorted there)."""

from __future__ import annotations

from portakern.ir.core import Arg, Block, Op, Result, Yield
from portakern.ir.tile import Broadcast, Dot, Kernel, Load, Mask, SortBy, tile_type

from .arrays import LocalArrays
from .elements import ELEMENTWISE, axes_of, hint_of, is_leaf, lead_axis, source
from .plan import Item, LocalStore, PackedProduct, SortedArrays, Storage


class OperandPacking:
    """``rows`` is the height of a register tile."""

    def __init__(self, kernel: Kernel, arrays: LocalArrays, rows: int) -> None:
        self.kernel, self.arrays, self.rows = kernel, arrays, rows
        self.uses: dict[Op, list[Op]] = {}
        self.packs: dict[Op, list[tuple[str, ...]]] = {}
        self.packed: dict[tuple[Op, tuple[str, ...]], Storage] = {}
        for op in kernel.body.walk():
            if isinstance(op, Dot):
                for operand, axes in zip(_operands(op), _operand_axes(op), strict=True):
                    self.packs.setdefault(operand, []).append(axes)
            for operand in op.operands:
                self.uses.setdefault(operand, []).append(op)

    def expand(self, block: Block) -> list[Item]:
        """The operations of a block that need code, with products split into packing and multiplying."""
        items: list[Item] = []
        for op in block.ops:
            if isinstance(op, Dot):
                items += self._product(op)
            elif isinstance(op, SortBy):
                items += self._sort(op)
            elif isinstance(op, Result) and isinstance(op.source, SortBy):
                pass  # lies in an array
            elif not (is_leaf(op) or isinstance(op, Yield) or source(op) is not op):
                items.append(op)
            for axes in self.packs.get(op, ()):
                items += self._pack(op, axes)
        return items

    def _pack(self, op: Op, axes: tuple[str, ...]) -> list[Item]:
        if (op, axes) in self.packed:
            return []
        t = tile_type(op)
        order = axes[::-1] if self._lies_turned(op, axes) else axes
        storage = self.arrays.pack(hint_of(source(op)) + "_pack", [(a, t.size(a)) for a in order], t.dtype)
        self.packed[op, axes] = storage
        return [LocalStore(source(op), storage)]

    def _lies_turned(self, op: Op, axes: tuple[str, ...]) -> bool:
        """Whether the operand is loaded along the first of its axes, so that it is turned round in registers and not element
        by element on its way."""
        load = source(op)
        floats = tile_type(op).dtype in ("f32", "f16", "bf16")
        return (self.arrays.turns and floats and len(axes) == 2 and isinstance(load, Load)
                and lead_axis(self.kernel, load) == axes[0])  # fmt: skip

    def _sort(self, op: SortBy) -> list[Item]:
        names = ("keys", *(hint_of(source(x)) for x in op.xs[1:]))
        items: list[Item] = []
        lines: list[Storage | None] = []
        for n, (name, x) in enumerate(zip(names, op.xs, strict=True)):
            if op.moves_places(self.kernel, n):
                lines.append(None)
                continue
            of = tile_type(x)
            made = self.arrays.make(f"{name}_line" if n else name, of.dims, of.dtype, "a line to be sorted")
            items.append(LocalStore(source(x), made))
            lines.append(made)
        moved: dict[int, tuple[Storage | None, Storage]] = {}
        for use in self.uses.get(op, ()):
            if isinstance(use, Result):
                n, of, have = use.index, tile_type(use), lines[use.index]
                if n not in moved:
                    moved[n] = have, self.arrays.make(f"sorted_{names[n]}", of.dims, of.dtype, "in order")
                self.arrays.of[use] = moved[n][1]
                self.arrays.written.add(use)
        assert lines[0] is not None
        return [*items, SortedArrays(op, lines[0], tuple(moved.values()))]

    def _product(self, dot: Dot) -> list[Item]:
        items: list[Item] = []
        (left, right), (a_axes, b_axes) = _operands(dot), _operand_axes(dot)
        for operand, axes in ((left, a_axes), (right, b_axes)):
            if isinstance(operand, Arg):
                items += self._pack(operand, axes)
        c = self._in_place(dot)
        acc = source(dot.acc)
        if c is None:
            t = tile_type(dot)
            c = self.arrays.make("acc" if isinstance(acc, Arg) else "products", t.dims, t.dtype, "accumulator of a product")
        if self.arrays.of.get(acc) is not c:
            items.append(LocalStore(acc, c))
        self.arrays.of[dot] = c
        self.arrays.written.add(dot)
        m = next((a for a in a_axes if a != dot.axis), None)
        n = next((a for a in b_axes if a != dot.axis), None)
        vectors = self.arrays.vectors if c.shape[-1] % (self.arrays.lanes * self.arrays.vectors) == 0 else 1
        multiply = PackedProduct(dot, self.packed[left, a_axes], self.packed[right, b_axes], c, m, n,
                            self.rows, self.arrays.lanes, vectors)
        return [*items, multiply]

    def _in_place(self, dot: Dot) -> Storage | None:
        """The array of the carried value that the product may add to in place: its accumulator is that value, perhaps
        scaled element by element, and nothing reads the old value after."""
        for arg, storage in list(self.arrays.of.items()):
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
            if not isinstance(user, (*ELEMENTWISE, Broadcast, Mask)) or tile_type(user).dims != dims:
                return False
            value = user


def _operands(dot: Dot) -> tuple[Op, Op]:
    """Rows, then columns: swapped where the accumulator's last dim is the free dim of ``lhs``."""
    dims = axes_of(dot)
    swapped = bool(dims) and dims[-1] in axes_of(dot.lhs)
    return (dot.rhs, dot.lhs) if swapped else (dot.lhs, dot.rhs)


def _operand_axes(dot: Dot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The dims of the packed operands: (m, k) and (k, n); an axis whose tile is 1 is absent."""
    k = dot.axis
    m, n = (tuple(a for a in axes_of(operand) if a != k) for operand in _operands(dot))
    if len(m) > 1 or len(n) > 1:
        dot.fail("a product over operands of more than two dims has no rule here")
    return (*m, k), (k, *n)
