"""What sizes a text with open dims is compiled for: a TPU program has fixed shapes, and the source is compiled for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from portakern.ir.program import Array, Program
from portakern.ir.tile import BufferType

from ..planning.blocks import LANES, SUBLANES, BlockAccess, passed_shape, reaches_out

_TRIED = (1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
"""From the largest on.  Whole lines of lanes, where a reshape that joins dims moves nothing: with 1000 columns libtpu takes
over 100 s to compile such a copy, and to write out what it made of it, with 1024 it takes 3 s."""

_MOST = 1 << 20
"""Elements of an array of open size, its padding among them.  XLA has straight code for a copy of lines that are no whole tiles
(1024 x 60 x 62 as 61440 x 62, bf16, v6e: 31 s to compile), so that a normalised row with open rows was not compiled in 280 s
for 1024 of them, in 108 s for 256, in 16 s for 128, with what libtpu writes out of it."""

_MOST_PASSED = 1 << 28
"""The same of what a kernel is passed, an array padded for a large last block, say; a quarter where a line has one element:
libtpu 0.0.52 takes 90 s for 120,000 such lines."""


def typical(program: Program, accesses: Sequence[BlockAccess] = (), fits: Callable[[Mapping[str, int]], bool] = lambda _: True
            ) -> tuple[tuple[str, int], ...]:  # fmt: skip
    """Open dims with the sizes they are compiled for: large ones, of which the arrays still have room on a device, or the
    smallest ones that leave every array elements and have what its kernels are passed, their ``accesses``, inside.  ``fits``
    says whether there is room for what kernels keep besides."""
    tried = [dict.fromkeys(program.sizes, size) for size in _TRIED]
    open_ = [a.name for a in program.arrays if _is_open(a)]
    shapes = [[program.shape(name, s) for name in open_] for s in tried]
    passed = [[passed_shape(a, s) for a in accesses] for s in tried]
    outside = [sum(reaches_out(a, s) for a in accesses) for s in tried]
    empty = [sum(size < 1 for shape in every for size in shape) + out for every, out in zip(shapes, outside, strict=True)]
    filled = [n for n, count in enumerate(empty) if count == min(empty)]
    held = (n for n in filled if fits(tried[n]) and all(_held(shape) <= _MOST for shape in shapes[n])
            and all(_held(shape) * (4 if shape[-1:] == (1,) else 1) <= _MOST_PASSED for shape in passed[n] if shape))
    return tuple(tried[next(held, filled[-1])].items())


def _is_open(array: Array) -> bool:
    return isinstance(array.type, BufferType) and not all(isinstance(n, int) for n in array.type.shape)


def _held(shape: Sequence[int]) -> int:
    """Elements that an array of ``shape`` takes in memory, where its last two dims are padded to whole native tiles."""
    *before, rows, columns = (1, 1, *shape)
    return prod(before) * -(-rows // SUBLANES) * SUBLANES * -(-columns // LANES) * LANES
