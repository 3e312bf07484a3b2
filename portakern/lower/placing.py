"""Where the results of a stage lie in larger arrays: what is assembled of pieces is stored piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portakern.ir.core import Op
from portakern.ir.index import Index
from portakern.ir.size import Size
from portakern.ir.tensor import Assemble, TensorType, tensor_type


@dataclass(frozen=True)
class Placed:
    """An output of a stage that is a piece of ``array``: its element i along dim d lies at ``offsets[d] + steps[d] * i``.

    ``fill`` is what the array holds where no piece lies (``None``: there is no such place).
    """

    array: str
    of: TensorType
    offsets: tuple[Size, ...]
    steps: tuple[int, ...]
    shape: tuple[Size, ...]
    fill: float | int | bool | None = None

    @property
    def moved(self) -> tuple[bool, ...]:
        """For each dim, whether the piece is anything but the whole of it."""
        each = zip(self.offsets, self.steps, self.shape, self.of.shape, strict=True)
        return tuple((offset, step, size) != (0, 1, whole) for offset, step, size, whole in each)


@dataclass(frozen=True)
class Line:
    """An array of type ``of`` of which a step has one element along each of its first dims, that at ``places``; its program
    knows of no others."""

    of: TensorType
    places: tuple[Index, ...]


def pieces_of(op: Assemble, array: str) -> Iterator[tuple[Op, str, Placed]]:
    """The pieces of ``op``, stored as ``array``: each value, the name of that output, and where it lies."""
    for number, (part, (offsets, steps)) in enumerate(zip(op.parts, op.places, strict=True)):
        yield part, f"{array}.{number}", Placed(array, tensor_type(op), offsets, steps, tensor_type(part).shape, op.fill)
