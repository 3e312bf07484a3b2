"""Rolled arrays, whose elements leave at one end and come in at the other: read in place, each at a computed coordinate.

Such an array is two slices put together.  As pieces each would be stored by a kernel of its own, whose rows begin wherever the
cut is, and rolled along several dims the whole is copied for each (roll of 8192 x 4096 bf16 along both, on an H200: 179 us as
pieces, 34 us so).  A load that computes where its element lies is fused with what reads it and stores rows as they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.ir.core import Block, Op
from portakern.ir.size import Size
from portakern.ir.tensor import (
    Assemble,
    Concat,
    Convert,
    DimSize,
    Gather,
    Iota,
    Literal,
    Map,
    Slice,
    TensorProgram,
    tensor_type,
)  # fmt: skip

_LONGEST = 1 << 30
"""Elements of a dim whose places, two of them added, are integers of 32 bits."""


def rolled_in_place(program: TensorProgram, columns: bool) -> TensorProgram:
    """``program`` with rolled arrays as loads at computed coordinates.  ``columns``: for lines, too, that nothing is done
    with but to store them, or whose halves change places, which two copies of neighbours may do faster (the latter in C++
    1.2 ms, 1.7 ms so, for 2048 x 8 x 128 f32)."""
    return replace(program, body=_Rolls(columns).block(program.body))


class _Rolls:
    def __init__(self, columns: bool) -> None:
        self.columns = columns
        self.new: dict[Op, Op] = {}

    def block(self, block: Block) -> Block:
        stored = _stored(block)
        ops: list[Op] = []
        for old in block.ops:
            op = old.remap(lambda o: self.new.get(o, o), self.block)
            made = _in_place(op)
            lines = bool(made) and made[-1].axis == tensor_type(op).rank - 1
            if lines and not self.columns and (old in stored or _halves(op)):
                made = ()
            ops += made or (op,)
            self.new[old] = ops[-1]
        return Block(block.args, tuple(ops))


def _stored(block: Block) -> set[Op]:
    """What something else than elementwise work is done with, rolled along other dims first or not."""
    users: dict[Op, list[Op]] = {}
    found: set[Op] = set()
    for op in [*block.walk()][::-1]:
        others = (x for x in users.get(op, ()) if not isinstance(x, Map | Convert))
        if any(x in found or not isinstance(x, Slice | Concat) for x in others):
            found.add(op)
        for x in op.operands:
            users.setdefault(x, []).append(op)
    return found


def _halves(op: Op) -> bool:
    """Whether the parts of ``op`` are of one size."""
    parts = op.parts if isinstance(op, Concat | Assemble) else ()
    return len({tensor_type(p).shape for p in parts}) == 1


def _in_place(op: Op) -> tuple[*tuple[Op, ...], Gather] | tuple[()]:
    """The operations that load the rolled array ``op``."""
    if isinstance(op, Concat):
        return _rolled(op, op.parts, op.axis)
    if not isinstance(op, Assemble) or len(op.parts) != 2 or any(s != 1 for _, steps in op.places for s in steps):
        return ()
    (first, second), shape = [offsets for offsets, _ in op.places], tensor_type(op).shape  # as gradients write it
    axis = next((d for d, o in enumerate(second) if o != 0), 0)
    before, after = (tensor_type(p).shape[axis] for p in op.parts)
    follow = all(o == 0 for o in first) and second == tuple(before if d == axis else 0 for d in range(len(shape)))
    return _rolled(op, op.parts, axis) if follow and before + after == shape[axis] else ()


def _rolled(op: Concat | Assemble, parts: Sequence[Op], axis: int) -> tuple[*tuple[Op, ...], Gather] | tuple[()]:
    """``op``, whose ``parts`` follow each other along ``axis``, if they are the end and the beginning of one array."""
    size = tensor_type(op).shape[axis]
    if len(parts) != 2 or not all(isinstance(p, Slice) for p in parts) or (isinstance(size, int) and size > _LONGEST):
        return ()
    end, begin = (p for p in parts if isinstance(p, Slice))
    shape, cut = tensor_type(end.x).shape, end.starts[axis]
    if end.x is not begin.x or begin.stops[axis] != cut or not (_all_but(end, axis, cut, shape[axis])
                                                                and _all_but(begin, axis, 0, cut)):  # fmt: skip
        return ()
    here, by, whole = Iota((size,), 0, "i32"), _number(cut), _number(size)
    place = Map("add", (here, by))
    inside, beyond = Map("lt", (place, whole)), Map("sub", (place, whole))
    wrapped = Map("select", (inside, place, beyond))
    return here, by, whole, place, inside, beyond, wrapped, Gather(end.x, wrapped, axis, loc=op.loc)


def _all_but(op: Slice, axis: int, start: Size, stop: Size) -> bool:
    """Whether ``op`` takes every element, but of ``axis`` those from ``start`` to ``stop``."""
    shape = tensor_type(op.x).shape
    wanted = [(start, stop) if d == axis else (0, size) for d, size in enumerate(shape)]
    return list(zip(op.starts, op.stops, strict=True)) == wanted and all(s == 1 for s in op.steps)


def _number(size: Size) -> Op:
    return Literal(size, "i32") if isinstance(size, int) else DimSize(size, "i32")
