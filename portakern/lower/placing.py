"""Where the results of a stage lie in larger arrays: what is assembled of pieces is stored piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeVar

from portakern.ir.core import Op
from portakern.ir.index import Index
from portakern.ir.size import Size
from portakern.ir.tensor import Assemble, TensorType, tensor_type

T = TypeVar("T")


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
    """An array of type ``of`` of which a step has one element along some dims, that at ``places``; its program knows of the
    others (``None``) alone."""

    of: TensorType
    places: tuple[Index | None, ...]

    def own(self, dims: Sequence[T]) -> tuple[T, ...]:
        """What ``dims`` says of the dims that the step knows of."""
        return tuple(d for d, place in zip(dims, self.places, strict=True) if place is None)

    @property
    def leading(self) -> tuple[Index, ...] | None:
        """The places, where the dims that the step knows of come after them, so that any view of these lies there."""
        begin = tuple(takewhile(lambda p: p is not None, self.places))
        return begin if not any(self.places[len(begin) :]) else None  # type: ignore[return-value]

    def at(self, axis: int, place: Index) -> Line:
        """One element more, along dim ``axis`` of those that were left."""
        left = [d for d, p in enumerate(self.places) if p is None]
        return replace(self, places=tuple(place if d == left[axis] else p for d, p in enumerate(self.places)))

    @staticmethod
    def whole(of: TensorType) -> Line:
        return Line(of, (None,) * len(of.shape))


def pieces_of(op: Assemble, array: str) -> Iterator[tuple[Op, str, Placed]]:
    """The pieces of ``op``, stored as ``array``: each value, the name of that output, and where it lies."""
    for number, (part, (offsets, steps)) in enumerate(zip(op.parts, op.places, strict=True)):
        yield part, f"{array}.{number}", Placed(array, tensor_type(op), offsets, steps, tensor_type(part).shape, op.fill)
