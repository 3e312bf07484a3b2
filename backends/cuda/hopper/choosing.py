"""The schedules of products that are pipelines between warps, by how long the device would take for each."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, NestAxis, Schedule

from .narrow import COLUMNS, WARPS
from .packing import worth_packing
from .planning import UNITS


@dataclass(frozen=True)
class _Tile:
    """``rate`` is how much of the matrix unit's rate large products reach with it, relative to the best tile; ``cut`` the same
    where rows are no whole sectors of the cache, so that the copy engine fetches more (bf16 on an H200)."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    rate: float
    cut: float


_TILES = (
    _Tile(128, 256, 64, 8, 4, 1.0, 0.95),
    _Tile(128, 128, 64, 8, 6, 0.96, 0.75),
    _Tile(64, 128, 64, 4, 8, 0.95, 0.6),
    _Tile(64, 64, 64, 4, 12, 0.7, 0.4),
)
_LEAST_K = 32
"""Shorter sums are over before a pipeline is filled."""


def pipelines(nest: Nest, device: Device) -> list[Schedule]:
    """Best first; empty where the product is too small, or its rows cannot be fetched by the copy engine."""
    m, n, k = (nest.role(x)[0] for x in "mnk")
    dtype = nest.dots or nest.io_dtype
    if dtype not in ("bf16", "f16") or not (device.has("tma") and device.has("wgmma")):
        return []
    if m.extent == 1 and _extent(n) >= COLUMNS and _extent(k) >= 512 and _extent(n) % 8 == _extent(k) % 8 == 0:
        sizes = {m.name: 16, n.name: COLUMNS, k.name: 64}
        return [Schedule(tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes), 2, WARPS)]
    granule = 16 // DTYPES[dtype].bytes
    within_reach = all(isinstance(a.extent, int) and a.extent % granule == 0 for a in (n, k))
    if not (within_reach or worth_packing(m.extent, n.extent, k.extent)) or _extent(k) < _LEAST_K:
        return []
    if _extent(n) < 64 or (_extent(m) < 64 and _extent(n) < 1024):
        return []  # a few rows by a long operand are a matter of bytes in flight, of which a pipeline has most
    fitting = [t for t in _TILES if t.m == 64 or _extent(m) > 64]
    units = device.count("units", UNITS)
    ranked = sorted(fitting, key=lambda t: _time(t, nest, units))
    return [_schedule(nest, t) for t in ranked]


def _extent(axis: NestAxis) -> int:
    """Its extent; a large number where it is open."""
    return axis.extent if isinstance(axis.extent, int) else 1 << 12


def _time(t: _Tile, nest: Nest, units: int) -> float:
    """Rounds of tiles on all units times the work of one, in the time the best tile takes for one element."""
    m, n, k = (nest.role(x)[0] for x in "mnk")
    tiles = -(-_extent(m) // t.m) * -(-_extent(n) // t.n)
    for axis in nest.role("batch"):
        tiles *= _extent(axis)
    whole = all(_extent(a) % 16 == 0 or _extent(a) % 8 for a in (n, k))  # what is packed has whole lines
    return -(-tiles // units) * t.m * t.n / (t.rate if whole else t.cut)


def _schedule(nest: Nest, t: _Tile) -> Schedule:
    sizes = {nest.role(x)[0].name: size for x, size in (("m", t.m), ("n", t.n), ("k", t.k))}
    return Schedule(tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes), t.stages, t.warps)
