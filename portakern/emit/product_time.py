"""How long a product takes by its tile and its parts, where the copy engine feeds the matrix units of Hopper.

A unit is multiplying, or waits for its operands from the last-level cache, which all units share; or memory has not given them
yet.  What is shorter of work and reading hides behind the other; parts of a sum come with a second kernel.  How fast each is,
is for a backend to say (:class:`Pace`), as it measured its kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, prod

from portakern.device import Device
from portakern.ir.schedule import Nest, NestAxis


@dataclass(frozen=True)
class Pace:
    """Of one compiler's kernels: microseconds, and KB (1000 bytes) per microsecond.

    Args:
        multiply: of 16-bit multiply-adds, one on one unit, at a tile's rate of 1.
        unit_kb: what arrives from the cache at one unit.
        all_kb: what arrives at all of them.
        first_kb: what arrives at it for the first step of a block, which nothing hides.
        block_kb: what one block draws from memory, where few are at work.
        launch: beginning and end of a kernel.
        join: the same of the second one of a sum in parts.
        part: of it for each part.
        join_kb: parts on their way to the cache and back.
        store_kb: results on their way to memory.
    """

    multiply: float
    unit_kb: float
    all_kb: float
    first_kb: float
    block_kb: float
    launch: float
    join: float
    part: float
    join_kb: float
    store_kb: float


MEMORY_SHARE, MEMORY_KB = 0.955, 3200
"""Of the stated rate of memory, what products reach; and that rate of a device whose own is not known (an H100's)."""

HIDING, DRAWING = 3.1, 4.0
"""How sharply the longer of work and reading counts alone, and the rate of few blocks turns into that of memory: exponents of
sums of powers."""

PADDING = 0.02
"""What results that are computed past the ends cost at most beside those that are kept: ties go to tiles that fit."""


@dataclass(frozen=True)
class Product:
    """``batches`` products of m x k and k x n elements of ``bytes``, on ``units`` of a device with ``memory_kb`` per us.

    ``walked`` is what else is summed for each of the ``k``; ``read`` how many elements of the left operand a row has in memory,
    which windows share.
    """

    m: int
    n: int
    k: int
    batches: int
    bytes: int
    units: int
    walked: int = 1
    read: int = 0
    memory_kb: float = MEMORY_KB

    @staticmethod
    def of(nest: Nest, device: Device, bytes_: int, units: int = 132) -> Product | None:
        """``None`` where an extent is open.  ``units`` are those of a device whose number is not known."""
        if not all(isinstance(a.extent, int) and a.extent > 0 for a in nest.axes):
            return None
        m, n, k = (_extents(nest.role(r)) for r in "mnk")
        walked, taps = nest.role("reduced"), [a for a in nest.role("reduced") if a.window == "taps"]
        return Product(m, n, k, _extents(nest.role("batch")), bytes_, device.count("units", units), _extents(walked),
                       k * _extents(walked) // _extents(taps), Product.memory(device))  # fmt: skip

    @staticmethod
    def memory(device: Device) -> float:
        """KB per us that products get from its memory."""
        given = device.figures.get("bandwidth")
        return MEMORY_SHARE * given.value / 1e9 if given is not None else MEMORY_KB

    def tiles(self, m: int, n: int) -> int:
        return self.batches * ceil(self.m / m) * ceil(self.n / n)

    def microseconds(self, pace: Pace, tile: tuple[int, int, int], rate: float = 1.0, parts: int = 1, at_once: int = 1,
                     latency: float = 0.0) -> float:  # fmt: skip
        """By blocks of ``tile`` elements (m, n, k) and ``parts`` of the sum, of which a unit has ``at_once``.

        ``rate`` is that of the tile's multiply-adds, ``latency`` microseconds that a step takes whatever else is at work.
        """
        tm, tn, tk = tile
        blocks = self.tiles(tm, tn) * parts
        steps = self.walked * ceil(ceil(self.k / tk) / parts)
        busy, there = min(blocks, self.units), min(blocks, self.units * at_once)
        step_kb = (tm + tn) * tk * self.bytes / 1e3
        step = max(tm * tn * tk * pace.multiply * self.bytes / 2 / rate, step_kb / pace.unit_kb, step_kb * busy / pace.all_kb)
        rounds = ceil(blocks / (self.units * at_once))
        work = max(ceil(blocks / self.units) * steps * step, rounds * steps * latency) + rounds * step_kb / pace.first_kb
        reading = self._read_kb() / self._drawn(there * pace.block_kb)
        time = pace.launch + (work**HIDING + reading**HIDING) ** (1 / HIDING)
        results = self.batches * self.m * self.n
        if parts > 1:
            time += pace.join + pace.part * parts + 2 * parts * results * 4 / 1e3 / pace.join_kb
        else:
            time += results * self.bytes / 1e3 / pace.store_kb
        return time * (1 + PADDING * (1 - results / (self.tiles(tm, tn) * tm * tn)))

    def _read_kb(self) -> float:
        return self.batches * (self.m * (self.read or self.k) + self.k * self.walked * self.n) * self.bytes / 1e3

    def _drawn(self, wanted: float) -> float:
        share = wanted / self.memory_kb
        return self.memory_kb * share / (1 + share**DRAWING) ** (1 / DRAWING)


def _extents(axes: Iterable[NestAxis]) -> int:
    return prod(a.extent for a in axes if isinstance(a.extent, int))


MOST_PARTS, FEWEST_STEPS = 32, 4


def numbers_of_parts(product: Product, tile: tuple[int, int, int]) -> Iterator[int]:
    """Numbers of parts worth a look: as long as they give every unit about two blocks and each part some steps."""
    most = min(MOST_PARTS, 2 * product.units // product.tiles(*tile[:2]), ceil(product.k / tile[2]) // FEWEST_STEPS)
    yield from range(1, max(1, most) + 1)
