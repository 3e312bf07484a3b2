"""Concatenations that grow: where an array of pieces lies in a larger one as it is, only the larger one is stored.

Each layer of a dense block reads all that the layers before have made, ``concat(x, y0, .., yk)``, and adds a piece.  Stored one
by one these arrays would take as many copies as there are pairs of layers.  Here the last of them is the only array, every
layer stores its piece to it once, and what reads an earlier one reads a slice of it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from portakern.ir.core import Arg, Op
from portakern.ir.size import Size
from portakern.ir.tensor import Assemble, Slice, TensorProgram, tensor_type


@dataclass(frozen=True)
class Inside:
    """A value that lies in the array ``whole``, from ``starts`` on."""

    whole: Assemble
    starts: tuple[Size, ...]

    def view(self, value: Op, array: Arg) -> Slice:
        """``value`` as a slice of ``array``, which is ``whole``."""
        shape = tensor_type(value).shape
        stops = tuple(a + n for a, n in zip(self.starts, shape, strict=True))
        return Slice(array, self.starts, stops, (1,) * len(shape), loc=value.loc)


def inside_others(program: TensorProgram, but: Container[Op] = ()) -> dict[Op, Inside]:
    """The arrays made of pieces that lie in a larger one as they are, each in one that lies in no other; those in ``but`` are
    arrays of their own.  The pieces of such a larger array lie in it too."""
    arrays = sorted((op for op in program.body.ops if isinstance(op, Assemble)), key=lambda op: -len(op.parts))
    holding: dict[Op, list[Assemble]] = {}  # the arrays that lie in no other, by their pieces
    found: dict[Op, Inside] = {}
    for op in arrays:
        places = (_place_in(op, larger) for larger in holding.get(op.parts[0], ()))
        inside = None if op in but else next((p for p in places if p is not None), None)
        if inside is not None:
            found[op] = inside
            continue
        for part in dict.fromkeys(op.parts):
            holding.setdefault(part, []).append(op)
    for whole in dict.fromkeys(inside.whole for inside in found.values()):
        for part, (offsets, steps) in zip(whole.parts, whole.places, strict=True):
            if not isinstance(part, Arg) and part not in but and all(s == 1 for s in steps):
                found.setdefault(part, Inside(whole, offsets))
    return found


def _place_in(op: Assemble, larger: Assemble) -> Inside | None:
    """Where in ``larger`` the array ``op`` lies, with all of its pieces and nothing else."""
    if op.fill is not None and repr(op.fill) != repr(larger.fill):
        return None
    there = dict(zip(larger.parts, larger.places, strict=True))
    if len(there) < len(larger.parts) or any(p not in there for p in op.parts):
        return None
    (mine, _), (other, _) = op.places[0], there[op.parts[0]]
    starts = tuple(b - a for a, b in zip(mine, other, strict=True))
    for part, (offsets, steps) in zip(op.parts, op.places, strict=True):
        if there[part] != (tuple(s + o for s, o in zip(starts, offsets, strict=True)), steps):
            return None
    if op.fill is not None and not (_within(op, larger, starts) and _alone(op, larger, starts)):
        return None
    return Inside(larger, starts)


def _within(op: Assemble, larger: Assemble, starts: tuple[Size, ...]) -> bool:
    """Whether what ``op`` holds around its pieces lies in ``larger`` too."""
    over = [start + size - whole for start, size, whole in zip(starts, op.shape, larger.shape, strict=True)]
    return all(isinstance(s, int) and s >= 0 for s in starts) and all(isinstance(n, int) and n <= 0 for n in over)


def _alone(op: Assemble, larger: Assemble, starts: tuple[Size, ...]) -> bool:
    """Whether no other piece of ``larger`` reaches into where ``op`` lies."""
    others = [(o, s, tensor_type(p).shape) for p, (o, s) in zip(larger.parts, larger.places, strict=True) if p not in op.parts]
    return all(any(_apart(a, n, b, s, m) for a, n, b, s, m in zip(starts, op.shape, offsets, steps, shape, strict=True))
               for offsets, steps, shape in others)  # fmt: skip


def _apart(start: Size, size: Size, offset: Size, step: int, count: Size) -> bool:
    """Whether ``size`` elements from ``start`` and ``count`` ones from ``offset`` in steps do not meet."""
    before, behind = offset + step * (count - 1) - start, start + size - offset
    return (isinstance(before, int) and before < 0) or (isinstance(behind, int) and behind <= 0)
