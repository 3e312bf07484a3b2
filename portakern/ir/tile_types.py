"""Axes, and the types of tiles and buffers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from portakern.dtypes import DTYPES, DType
from portakern.errors import IRError
from portakern.ir.core import Op, Type, codec, split_commas
from portakern.ir.size import Size, ceildiv, divides, parse_size


@dataclass(frozen=True)
class Axis:
    """A named range of coordinates: ``extent`` elements, taken ``tile`` at a time.

    ``kind`` is ``grid`` (one block per tile, unordered), ``loop`` (walked by a ``For``) or ``whole`` (one tile).
    """

    name: str
    kind: str
    extent: Size
    tile: int

    def __post_init__(self) -> None:
        if self.kind not in ("grid", "loop", "whole"):
            raise IRError(f"axis {self.name}: {self.kind!r} is not grid, loop or whole")
        if self.tile < 1:
            raise IRError(f"axis {self.name}: the tile must have at least one element, not {self.tile}")
        if self.kind == "whole" and not (isinstance(self.extent, int) and self.extent <= self.tile):
            raise IRError(f"axis {self.name}: a tile of {self.tile} does not cover {self.extent} elements")

    @property
    def steps(self) -> Size:
        """How many tiles cover the axis."""
        return 1 if self.kind == "whole" else ceildiv(self.extent, self.tile)

    @property
    def ragged(self) -> bool:
        """Whether a tile may reach past the extent."""
        return not divides(self.tile, self.extent) if self.kind != "whole" else self.extent != self.tile

    def __str__(self) -> str:
        return f"{self.name}={self.kind}({self.extent}, {self.tile})"

    @staticmethod
    def parse(text: str) -> Axis:
        name, rest = text.split("=", 1)
        kind, inner = rest.rstrip(")").split("(", 1)
        extent, tile = inner.rsplit(",", 1)
        return Axis(name, kind, parse_size(extent.strip()), int(tile))


codec("Axis", str, Axis.parse)

Dim = tuple[str, int]
Dims = tuple[Dim, ...]
"""Dims of a tile in order: (axis name, tile size)."""


def known_dtype(name: str) -> DType:
    if name not in DTYPES:
        raise IRError(f"unknown dtype {name!r}", hint=f"dtypes are {', '.join(DTYPES)}")
    return DTYPES[name]


@dataclass(frozen=True)
class TileType(Type):
    """An immutable tile whose dims are named by axes; without dims, a scalar."""

    dims: Dims
    dtype: str
    head: ClassVar[str] = "tile"

    def __post_init__(self) -> None:
        known_dtype(self.dtype)
        if len(set(self.axes)) != len(self.dims):
            raise IRError(f"an axis appears twice in {self}")

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.dims)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def size(self, axis: str) -> int:
        return dict(self.dims)[axis]

    def with_dtype(self, dtype: str) -> TileType:
        return TileType(self.dims, dtype)

    def without(self, *axes: str) -> TileType:
        return TileType(tuple(d for d in self.dims if d[0] not in axes), self.dtype)

    def __str__(self) -> str:
        return f"tile[{', '.join([*(f'{a}:{n}' for a, n in self.dims), self.dtype])}]"

    @classmethod
    def read(cls, parts: list[str]) -> TileType:
        dims = tuple((p.split(":")[0].strip(), int(p.split(":")[1])) for p in parts[:-1])
        return cls(dims, parts[-1])


@dataclass(frozen=True)
class BufferType(Type):
    """An array in memory: sizes, strides in elements (``None``: row-major and contiguous), and what is known of it.

    ``align`` is the known alignment of the first element in bytes.
    """

    shape: tuple[Size, ...]
    dtype: str
    strides: tuple[Size, ...] | None = None
    align: int = 16
    head: ClassVar[str] = "buffer"

    def __post_init__(self) -> None:
        known_dtype(self.dtype)
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise IRError(f"{len(self.strides)} strides for {len(self.shape)} dims")

    @property
    def element_strides(self) -> tuple[Size, ...]:
        """Strides in elements, row-major where none were given."""
        if self.strides is not None:
            return self.strides
        out: list[Size] = []
        stride: Size = 1
        for size in reversed(self.shape):
            out.append(stride)
            stride = stride * size
        return tuple(reversed(out))

    @property
    def wide(self) -> bool:
        """Whether an element offset may not fit in 31 bits (an open dim may be of any size)."""
        reach: Size = 0
        for size, stride in zip(self.shape, self.element_strides, strict=True):
            reach = reach + (size - 1) * stride
        return not isinstance(reach, int) or reach >= 2**31

    def __str__(self) -> str:
        parts = [*map(str, self.shape), self.dtype]
        if self.strides is not None:
            parts.append(f"strides({', '.join(map(str, self.strides))})")
        if self.align != 16:
            parts.append(f"align({self.align})")
        return f"buffer[{', '.join(parts)}]"

    @classmethod
    def read(cls, parts: list[str]) -> BufferType:
        strides, align = None, 16
        while parts and parts[-1].startswith(("strides(", "align(")):
            word, _, inner = parts.pop().rstrip(")").partition("(")
            if word == "align":
                align = int(inner)
            else:
                strides = tuple(map(parse_size, split_commas(inner)))
        return cls(tuple(map(parse_size, parts[:-1])), parts[-1], strides, align)


def tile_type(op: Op) -> TileType:
    """The type of a tile value; raises when ``op`` is something else."""
    if not isinstance(op.type, TileType):
        raise IRError(f"{op.mnemonic()} gives {op.type}, where a tile is needed", where=str(op.loc or ""))
    return op.type


def buffer_type(op: Op) -> BufferType:
    if not isinstance(op.type, BufferType):
        raise IRError(f"{op.mnemonic()} gives {op.type}, where a buffer is needed", where=str(op.loc or ""))
    return op.type


codec("Dim", lambda dim: f"{dim[0]}:{dim[1]}", lambda text: (text.split(":")[0], int(text.split(":")[1])))
