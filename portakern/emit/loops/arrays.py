"""The local arrays that a plan asks for, and which values lie in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from portakern.ir.core import Op
from portakern.ir.tile import TileType, tile_type

from .elements import Bound, hint_of
from .plan import Storage

Dim = tuple[str, int]


class LocalArrays:
    """``of`` says in which array a value lies; ``written`` are the values that are there without a :class:`LocalStore` to come;
    ``vector`` is the axis that is walked by whole vectors around the current list; ``held`` is the dtype that an array's
    elements have for a value's dtype, where it is another; operands of products are kept as they are where their dtype is
    one of ``paired``, and lie as in memory where ``turns``."""

    def __init__(self, lanes: int, vectors: int, held: Mapping[str, str], paired: Collection[str] = (),
                 turns: bool = False) -> None:  # fmt: skip
        self.lanes, self.vectors, self.held, self.paired, self.turns = lanes, vectors, held, paired, turns
        self.made: list[Storage] = []
        self.of: dict[Op, Storage] = {}
        self.written: set[Op] = set()
        self.vector: Dim | None = None

    def make(self, hint: str, dims: Sequence[Dim], dtype: str, purpose: str, lane_axis: str | None = None) -> Storage:
        # Vectors may lie along any axis (see Vectors.lanes), and the last one reaches past a tile that they do not divide.
        shape = [-(-n // self._widest(n)) * self._widest(n) for _, n in dims] or [1]
        # Whole vectors are written at the end of a row; a matrix product walks columns two vectors at a time.
        unit = self.lanes if shape[-1] <= self.lanes else self.lanes * self.vectors
        shape[-1] = -(-shape[-1] // unit) * unit
        taken = {s.name for s in self.made}
        name, number = hint, 2
        while name in taken:
            name, number = f"{hint}{number}", number + 1
        made = Storage(name, tuple(dims), self.held.get(dtype, dtype), tuple(shape), purpose, lane_axis)
        self.made.append(made)
        return made

    def pack(self, hint: str, dims: Sequence[Dim], dtype: str) -> Storage:
        """An array for an operand of a product.  What is turned round is read in squares of words, which hold two elements of
        a dtype that is paired."""
        paired = dtype in self.paired
        made = self.make(hint, dims, dtype, f"operand of a product, packed{'' if paired else ' and widened'}")
        *outer, last = made.shape
        if self.turns and outer:
            unit = self.lanes * self.vectors if outer[0] > self.lanes else self.lanes
            outer[0] = -(-outer[0] // unit) * unit
        unit = 2 * self.lanes if paired else self.lanes
        shape = (*outer, -(-last // unit) * unit)
        self.made[-1] = replace(made, shape=shape, dtype=dtype if paired else made.dtype)
        return self.made[-1]

    def _widest(self, size: int) -> int:
        return min(self.lanes, 1 << max(size - 1, 0).bit_length())

    def inside(self, hint: str, of: TileType, bound: Bound, purpose: str) -> Storage:
        """An array for what of a tile is alive within one step of the loops over ``bound``."""
        dims = [d for d in of.dims if d[0] not in bound]
        if self.vector and self.vector[0] in of.axes:
            return self.make(hint, [*dims, self.vector], of.dtype, purpose, lane_axis=self.vector[0])
        return self.make(hint, dims, of.dtype, purpose)

    def keep(self, op: Op, bound: Bound) -> None:
        if op not in self.of:
            self.of[op] = self.inside(hint_of(op), tile_type(op), bound, "used again by a later loop")
