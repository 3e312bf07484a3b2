"""The schedules of products that are pipelines between warps, by how long the device would take for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.emit.product_time import Pace, Product, numbers_of_parts
from portakern.ir.schedule import Nest, NestAxis, Schedule

from ..plans import MULTIPLIED
from .narrow import FEW_ROWS, LEAST_COLUMNS, narrow_schedules
from .packing import worth_packing
from .planning import units_of


@dataclass(frozen=True)
class Tile:
    """``rate`` is how much of the matrix unit's rate it reaches where operands are there, relative to the first one (H100, see
    :mod:`portakern.emit.product_time`); ``cut`` the same where rows are no whole sectors of the cache, so that the copy engine
    fetches more (bf16 on an H200)."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    rate: float
    cut: float
    bytes: int = 2  # of an element

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    def of(self, bytes_: int) -> Tile:
        """As many bytes of elements of another size."""
        return replace(self, k=self.k * self.bytes // bytes_, bytes=bytes_)


HOPPER = Pace(3.07e-7, 105, 11500, 200, 400, 3.0, 3.9, 0.037, 4200, 5000)
"""Fitted, with the rates of the tiles below, to what 100 products by up to 22 schedules each took on an H100 SXM; off by
7.3% in the mean of 958 times (``benchmarks/choosing.py --report``)."""
BLACKWELL = Pace(1.32e-7, 105, 16000, 200, 400, 3.0, 3.9, 0.037, 6000, 7000)
"""Of products by tcgen05.  Nothing was measured: the multiply-adds are those of the stated peak of a B200 (2.25e15 FLOP/s of
dense bf16, by NVIDIA's data sheet, over 148 units); what arrives is a guess from Hopper's, by their units and memories."""

TILES_BY_WARPGROUPS = (
    Tile(128, 256, 64, 8, 4, 1.0, 0.95),
    Tile(256, 128, 64, 8, 4, 0.915, 0.81),
    Tile(128, 192, 64, 8, 4, 0.97, 0.905),
    Tile(128, 128, 64, 8, 6, 1.055, 0.71),
    Tile(64, 128, 64, 4, 8, 0.77, 0.6),
    Tile(64, 64, 64, 4, 12, 0.6, 0.4),
)
TILES_IN_TENSOR_MEMORY = (
    Tile(128, 256, 64, 8, 4, 1.0, 0.95),
    Tile(128, 192, 64, 8, 4, 0.9, 0.85),
    Tile(128, 128, 64, 8, 6, 0.75, 0.6),
    Tile(64, 128, 64, 4, 8, 0.5, 0.4),
    Tile(64, 64, 64, 4, 12, 0.375, 0.25),
)
"""Of tcgen05.  Nothing was measured: rates are what shared memory allows, which takes each operand in and gives it out once, of
128 bytes a clock (m n / (m + n) of a tile, by that of the best one); ``cut`` is a guess."""
_LEAST_K = 32
"""Shorter sums are over before a pipeline is filled."""


def multiplied_whole(nest: Nest) -> str:
    """The dtype in which matrix instructions multiply the operands; empty where none does."""
    dtype = nest.dots or nest.io_dtype
    if dtype.startswith("f8") and nest.precision != "fp8_fast":
        return "f16"
    return dtype if dtype in MULTIPLIED else ""


def pipelines(nest: Nest, device: Device) -> list[Schedule]:
    """Best first; empty where the product is too small, or its rows cannot be fetched by the copy engine."""
    m, n, k = (nest.role(x)[0] for x in "mnk")
    dtype, by_warpgroups = multiplied_whole(nest), device.has("wgmma")
    if not dtype or not device.has("tma") or not (by_warpgroups or device.has("tcgen05")):
        return []
    bytes_ = DTYPES[dtype].bytes
    tiles = [t.of(bytes_) for t in (TILES_BY_WARPGROUPS if by_warpgroups else TILES_IN_TENSOR_MEMORY)]
    if nest.groups and (_extent(k) % tiles[0].k or _extent(m) < tiles[-1].m):
        return []  # groups of weights that are no whole steps, of which a pipeline would multiply zeros; or few rows
    static = isinstance(n.extent, int) and isinstance(k.extent, int)
    if nest.turned and _extent(m) <= FEW_ROWS:
        return []  # the copy engine, and narrow products, take rows of the left operand as they lie
    few = m.extent == 1 or (static and isinstance(m.extent, int) and 1 < m.extent <= FEW_ROWS)
    if few and bytes_ == 2 and _extent(n) >= LEAST_COLUMNS and _extent(k) >= 512 and _extent(n) % 8 == _extent(k) % 8 == 0:
        return narrow_schedules(nest, units_of(device))
    granule = 16 // bytes_
    within_reach = all(isinstance(a.extent, int) and a.extent % granule == 0 for a in (n, k))
    if not (within_reach or (bytes_ == 2 and worth_packing(m.extent, n.extent, k.extent))) or _extent(k) < _LEAST_K:
        return []
    if _extent(n) < 64 or (_extent(m) < 64 and _extent(n) < 1024):
        return []  # a few rows by a long operand are a matter of bytes in flight, of which a pipeline has most
    # Of products that share an operand each has its part of the columns, of which warpgroups multiply 64 at least.
    wide = [t for t in tiles if t.n >= 64 * nest.products or _extent(m) <= 64]
    fitting = [t for t in wide if t.m == 64 or _extent(m) > 64]
    product = Product.of(nest, device, bytes_, units_of(device))
    if product is None:
        return [_schedule(nest, t) for t in sorted(fitting, key=lambda t: _rounds(t, nest, units_of(device)))]
    return _fastest(product, nest, fitting, HOPPER if device.has("wgmma") else BLACKWELL)


def _fastest(product: Product, nest: Nest, fitting: Sequence[Tile], pace: Pace) -> list[Schedule]:
    """Each tile at its best number of parts, then whole; the fastest first."""

    def best(t: Tile) -> tuple[float, int]:
        numbers = numbers_of_parts(product, t.shape)
        return min((product.microseconds(pace, t.shape, _rate(t, nest), parts), parts) for parts in numbers)

    ranked = sorted(((best(t), t) for t in fitting), key=lambda x: x[0])
    found = [_schedule(nest, t, parts) for (_, parts), t in ranked]
    return list(dict.fromkeys([*found, *(_schedule(nest, t) for _, t in ranked)]))


def _extent(axis: NestAxis) -> int:
    """Its extent, at least 1; a large number where it is open."""
    return max(axis.extent, 1) if isinstance(axis.extent, int) else 1 << 12


def _tiles(t: Tile, nest: Nest) -> int:
    m, n = (nest.role(x)[0] for x in "mn")
    return -(-_extent(m) // t.m) * -(-_extent(n) // t.n) * prod(map(_extent, nest.role("batch")))


def _rounds(t: Tile, nest: Nest, units: int) -> float:
    """Of open extents, taken for long ones: rounds of tiles on all units times the work of one."""
    return -(-_tiles(t, nest) // units) * t.m * t.n / _rate(t, nest)


def _rate(t: Tile, nest: Nest) -> float:
    extents = [_extent(a) for a in (*nest.role("n"), *nest.role("k"))]
    return t.rate if all(e % 16 == 0 or e % 8 for e in extents) else t.cut  # packed: whole lines


def _schedule(nest: Nest, t: Tile, parts: int = 1) -> Schedule:
    sizes = {nest.role(x)[0].name: size for x, size in (("m", t.m), ("n", t.n), ("k", t.k))}
    options = (("split_k", parts),) if parts > 1 else ()
    return Schedule(tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes), t.stages, t.warps, options)
