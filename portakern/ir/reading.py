"""Where the values of open dims are read: off the shapes of the arrays at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portakern.ir.size import Size, Sym, evaluate, names_of


@dataclass(frozen=True)
class Reading:
    """An open dim as dim ``dim`` of ``array``, less ``offset`` (of dims read before), divided by ``factor``."""

    array: str
    dim: int
    factor: int = 1
    offset: Size = 0

    @property
    def plain(self) -> bool:
        """Whether the array's dim is the open dim itself."""
        return (self.factor, self.offset) == (1, 0)

    def value(self, extent: int, known: Mapping[str, int]) -> int:
        """The open dim where the array's dim has ``extent`` elements; rounded down where it has a share of them only."""
        return (extent - evaluate(self.offset, known)) // self.factor

    def __str__(self) -> str:
        """A Python expression: ``(x.shape[1] - 3) // 2``."""
        extent = f"{self.array}.shape[{self.dim}]"
        offset = f"({self.offset})" if isinstance(self.offset, Sym) else str(self.offset)
        less = f"{extent} - {offset}" if self.offset != 0 else extent
        if self.factor == 1:
            return less
        return f"{f'({less})' if self.offset != 0 else less} // {self.factor}"


def readings(shapes: Mapping[str, Sequence[Size]]) -> dict[str, Reading]:
    """Every open dim that arrays of these shapes tell, each after those that its offset needs.

    A dim is read where it stands by itself, else where a size is linear in it and its other dims are known (``2*N``,
    ``N + M``).  A dim that stands in products with others (``M*N``) or divisions only is told by none and left out.
    """
    places = [(size, array, dim) for array, shape in shapes.items() for dim, size in enumerate(shape)]
    alone: dict[str, Reading] = {}
    for size, array, dim in places:
        if len(names_of(size)) == 1 and size == Sym.named(str(size)):
            alone.setdefault(str(size), Reading(array, dim))
    found = {name: alone[name] for name in sorted(alone)}
    while True:
        more = next((told for size, array, dim in places if (told := _linear(size, array, dim, found))), None)
        if more is None:
            return found
        found[more[0]] = more[1]


def _linear(size: Size, array: str, dim: int, known: Mapping[str, Reading]) -> tuple[str, Reading] | None:
    """The one dim of ``size`` that is not ``known``, and how it is read there."""
    unknown = names_of(size) - set(known)
    if not isinstance(size, Sym) or len(unknown) != 1:
        return None
    (name,) = unknown
    factor = dict(size.terms).get((name,), 0)
    offset = size - Sym.named(name) * factor
    return None if factor == 0 or name in names_of(offset) else (name, Reading(array, dim, factor, offset))
