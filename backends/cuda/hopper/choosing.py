"""The schedules of products that are pipelines between warps, by how long the device would take for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, NestAxis, Schedule

from ..plans import MULTIPLIED
from .narrow import FEW_ROWS, LEAST_COLUMNS, narrow_schedules
from .packing import worth_packing
from .planning import units_of


@dataclass(frozen=True)
class Tile:
    """``rate`` is how much of the matrix unit's rate large products reach with it, relative to the best tile; ``cut`` the same
    where rows are no whole sectors of the cache, so that the copy engine fetches more (bf16 on an H200)."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    rate: float
    cut: float
    bytes: int = 2  # of an element

    @property
    def step_bytes(self) -> int:
        """Of both operands, for one step along k."""
        return (self.m + self.n) * self.k * self.bytes

    def of(self, bytes_: int) -> Tile:
        """As many bytes of elements of another size."""
        return replace(self, k=self.k * self.bytes // bytes_, bytes=bytes_)


TILES_BY_WARPGROUPS = (
    Tile(128, 256, 64, 8, 4, 1.0, 0.95),
    Tile(256, 128, 64, 8, 4, 0.975, 0.81),
    Tile(128, 192, 64, 8, 4, 0.93, 0.905),
    Tile(128, 128, 64, 8, 6, 0.96, 0.71),
    Tile(64, 128, 64, 4, 8, 0.75, 0.6),
    Tile(64, 64, 64, 4, 12, 0.7, 0.4),
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

# What products with few tiles take on an H200, fitted to 30 measured ones of 10 to 46 us (most within 15%).
_US_PER_ELEMENT = 0.66 / (128 * 256 * 64)
"""Of a multiply-add on one SM at the best tile's rate."""
_SM_KB_PER_US, _ALL_KB_PER_US = 112, 11000
"""What arrives from the cache at one SM, and at all of them where few share a line."""
_MEMORY_KB_PER_US, _MEMORY_KB_PER_BLOCK = 4300, 40
"""What memory gives, and what one block draws from it."""
_HIDDEN = 0.85
"""Of the shorter one of computing and reading, how much is hidden behind the other."""
_LAUNCH_US, _JOIN_US, _JOIN_KB_PER_US = 5.0, 2.5, 6000
"""Beginning and end of a product; the second kernel of one in parts, and how fast the parts go to the cache and come back."""
_MOST_PARTS, _FEWEST_STEPS = 32, 4


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
    few = m.extent == 1 or (static and isinstance(m.extent, int) and 1 < m.extent <= FEW_ROWS)
    if few and bytes_ == 2 and _extent(n) >= LEAST_COLUMNS and _extent(k) >= 512 and _extent(n) % 8 == _extent(k) % 8 == 0:
        return narrow_schedules(nest, units_of(device))
    granule = 16 // bytes_
    within_reach = all(isinstance(a.extent, int) and a.extent % granule == 0 for a in (n, k))
    if not (within_reach or (bytes_ == 2 and worth_packing(m.extent, n.extent, k.extent))) or _extent(k) < _LEAST_K:
        return []
    if _extent(n) < 64 or (_extent(m) < 64 and _extent(n) < 1024):
        return []  # a few rows by a long operand are a matter of bytes in flight, of which a pipeline has most
    fitting = [t for t in tiles if t.m == 64 or _extent(m) > 64]
    units = units_of(device)
    ranked = sorted(fitting, key=lambda t: _time(t, nest, units))
    whole = [_schedule(nest, t) for t in ranked]
    return [*_in_parts(nest, fitting, units), *whole] if 2 * _tiles(ranked[0], nest) <= units else whole


def _extent(axis: NestAxis) -> int:
    """Its extent, at least 1; a large number where it is open."""
    return max(axis.extent, 1) if isinstance(axis.extent, int) else 1 << 12


def _tiles(t: Tile, nest: Nest) -> int:
    m, n = (nest.role(x)[0] for x in "mn")
    return -(-_extent(m) // t.m) * -(-_extent(n) // t.n) * prod(map(_extent, nest.role("batch")))


def _time(t: Tile, nest: Nest, units: int) -> float:
    """Rounds of tiles on all units times the work of one, in the time the best tile takes for one element."""
    whole = all(_extent(a) % 16 == 0 or _extent(a) % 8 for a in (*nest.role("n"), *nest.role("k")))  # packed: whole lines
    return -(-_tiles(t, nest) // units) * t.m * t.n / (t.rate if whole else t.cut)


# ---- few tiles, long sums -------------------------------------------------------------------------------------------------


def _in_parts(nest: Nest, fitting: Sequence[Tile], units: int) -> list[Schedule]:
    """The best way of each tile, with the contracted axis in parts or not; empty where extents are open."""
    if not all(isinstance(a.extent, int) for a in nest.axes):
        return []
    best = []
    for t in fitting:
        steps = -(-_extent(nest.role("k")[0]) // t.k)
        most = max(1, min(_MOST_PARTS, units // _tiles(t, nest), steps // _FEWEST_STEPS))
        found = min((_microseconds(t, parts, nest, units), parts) for parts in range(1, most + 1))
        best.append((found[0], t, found[1]))
    return [_schedule(nest, t, parts) for _, t, parts in sorted(best, key=lambda x: x[0])]


def _microseconds(t: Tile, parts: int, nest: Nest, units: int) -> float:
    m, n, k = (_extent(nest.role(x)[0]) for x in "mnk")
    batches = prod(map(_extent, nest.role("batch")))
    blocks, whole = _tiles(t, nest) * parts, -(-k // t.k)
    steps = -(-whole // parts)
    at_once = min(blocks, units)
    step = max(t.m * t.n * t.k * _US_PER_ELEMENT * t.bytes / 2, t.step_bytes / 1e3 / _SM_KB_PER_US,
               t.step_bytes / 1e3 * at_once / _ALL_KB_PER_US)  # fmt: skip
    drawn = min(_MEMORY_KB_PER_US, at_once * _MEMORY_KB_PER_BLOCK)
    work = sorted((batches * (m * k + k * n) * t.bytes / 1e3 / drawn, -(-blocks // units) * steps * step))
    joining = _JOIN_US + 2 * parts * batches * m * n * 4 / 1e3 / _JOIN_KB_PER_US if parts > 1 else 0.0
    return _LAUNCH_US + work[1] + (1 - _HIDDEN) * work[0] + joining


def _schedule(nest: Nest, t: Tile, parts: int = 1) -> Schedule:
    sizes = {nest.role(x)[0].name: size for x, size in (("m", t.m), ("n", t.n), ("k", t.k))}
    options = (("split_k", parts),) if parts > 1 else ()
    return Schedule(tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes), t.stages, t.warps, options)
