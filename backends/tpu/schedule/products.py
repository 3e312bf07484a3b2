"""Blocks of matrix products, ordered by a model of their time: cycles of the matrix units against bytes from HBM.

A step costs the cycles of its product and a start of its own; blocks are copied beside it.  What is not hidden is the first
block of each operand and the last of the result.  The constants are fitted to libtpu's static profile (0.0.52; bf16 products of
8192 cubed in seventeen block sizes on v5e, v6e and tpu7x).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from portakern.device import Device
from portakern.dtypes import dtype as known
from portakern.ir.schedule import Nest, NestAxis

from ..estimate.figures import core_of

_ROWS, _COLUMNS, _DEPTHS = (2048, 1024, 512, 256, 128), (2048, 1024, 512, 256, 128), (4096, 2048, 1024, 512, 256)

_STEP_CYCLES = 350
"""What a grid step costs beside its work."""

_CYCLES_PER_SUM = 1.2e-4
"""For every element of the accumulator that a step adds to."""

_LARGEST = 2**31
"""Passes of products of a step on a unit of 128: its code is unrolled, to some ten thousand bundles, and takes seconds to
compile.  A block of f32 whose passes were six times as many compiled 40 seconds and was not faster (4096 cubed on v6e)."""

_SEEN = 0.6
"""Of the first and the last blocks: the share of their copies that nothing runs beside."""

_UNITS = 4
"""Matrix units whose peak the clocks in devices/*.toml are derived from."""

_OPEN = 4096
"""What an open dim is taken for."""

_PASSES: Mapping[str, float] = {"f32": 6.0, "bf16": 1.0, "i8": 0.5}
"""Passes of the matrix unit: f32 operands at Precision.HIGHEST are cut into three bf16 parts each."""


@dataclass(frozen=True)
class Rates:
    """What a core does in a cycle."""

    flops: float
    bytes: float
    unit: int  # a side of the matrix unit


def rates(nest: Nest, device: Device) -> Rates:
    core = core_of(device, 1)
    (unit, *_) = device.matrix_for("bf16")
    flops = 2 * _UNITS * unit.n * unit.k / _PASSES.get(nest.dots or nest.io_dtype, 1.0)
    return Rates(flops, core.bandwidth / core.clock, unit.n)


def blocks(nest: Nest, device: Device) -> Iterator[tuple[int, int, int]]:
    """Sizes (m, n, k) that are wanted, the best of the model first."""
    (m,), (n,), (k,) = nest.role("m"), nest.role("n"), nest.role("k")
    batch = math.prod(_length(a) for a in nest.role("batch"))
    speed = rates(nest, device)
    size = known(nest.dots or nest.io_dtype).bytes
    largest = _LARGEST * speed.unit / 128 / max(_PASSES.get(nest.dots or nest.io_dtype, 1.0), 1.0)
    wanted = (b for b in itertools.product(_ROWS, _COLUMNS, _DEPTHS) if math.prod(b) <= largest)
    yield from sorted(wanted, key=lambda b: cycles((_length(m), _length(n), _length(k)), b, speed, size, batch))


def cycles(lengths: tuple[int, int, int], block: tuple[int, int, int], speed: Rates, size: int, batch: int = 1) -> float:
    """Of a product of ``lengths`` (m, n, k) in blocks, elements of ``size`` bytes."""
    m, n, k = lengths
    bm, bn, bk = (min(b, max(length, 1)) for b, length in zip(block, lengths, strict=True))
    tiles, walk = -(-m // bm) * -(-n // bn) * batch, -(-k // bk)
    sums = bm * bn * _CYCLES_PER_SUM if walk > 1 else 0
    whole = -(-bn // speed.unit) * -(-bk // speed.unit) * speed.unit**2
    work = tiles * walk * (2 * max(bm, speed.unit) * whole / speed.flops + _STEP_CYCLES + sums)
    # An operand whose block stays the same from one step to the next is not copied again.
    left = bm * bk * (tiles * walk if walk > 1 else tiles // -(-n // bn))
    right = bk * bn * tiles * walk if walk > 1 or n > bn else bk * bn * batch
    moved = (left + right + bm * bn * tiles) * size / speed.bytes
    edges = (bm * bk + bk * bn + bm * bn) * size / speed.bytes
    return max(work, moved) + _SEEN * edges


def _length(axis: NestAxis) -> int:
    return max(axis.extent, 1) if isinstance(axis.extent, int) else _OPEN
