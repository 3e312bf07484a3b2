"""The schedules of attention that warpgroups walk along the keys."""

from __future__ import annotations

from collections.abc import Iterator

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, NestAxis, Schedule

from ..hopper.planning import UNITS
from .tensor_plan import MOST_TAKEN

_FEW_ROWS = 16
"""So few queries, or fewer, are a matter of reading keys and values: the copy engine brings them while most rows of a
warpgroup's tile are idle.  Where it cannot, and where keys are few as well, the small tiles of mma.sync will do."""

_FEW_KEYS = 512

_LAG = 8
"""Powers of two by which maxima of rows may lag behind where the sums of a row are so many that scaling them takes long."""

_QUICKLY_SCALED = 64
"""Sums of so many features, or fewer, are scaled in registers while the matrix unit works anyway."""


def walks(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Best first; none where the copy engine cannot fetch rows, or a block of rows would be nearly empty."""
    m, n, k, d = (nest.role(x)[0] for x in "mnkd")
    dtype = nest.dots or nest.io_dtype
    unit = next((x for x in ("tcgen05", "wgmma") if device.has(x)), "")
    if dtype not in ("bf16", "f16") or not (device.has("tma") and unit):
        return
    granule = 16 // DTYPES[dtype].bytes
    if not all(isinstance(a.extent, int) and 0 < a.extent <= 256 and a.extent % granule == 0 for a in (k, d)):
        return
    if not isinstance(n.extent, int) or n.extent == 0:
        return
    few = _extent(m) <= _FEW_ROWS
    if few and n.extent < _FEW_KEYS:
        return
    width, features = (-(-_extent(a) // 64) * 64 for a in (k, d))
    if few and unit == "tcgen05" and features > MOST_TAKEN:
        return  # parts of few keys may have none, and take no sum in parts
    heads = 1
    for axis in nest.role("batch"):
        heads *= _extent(axis)
    single = 128 if unit == "tcgen05" else 64
    # Two warpgroups share keys and values; one each where there are too few blocks of rows for all units.
    full = heads * -(-_extent(m) // (2 * single)) * 2 > device.count("units", UNITS)
    high = [(2 * single, 8), (single, 4)] if full else [(single, 4), (2 * single, 8)]
    for rows, warps in high if _extent(m) > single else [(single, 4)]:
        for keys in (128, 64) if max(width, features) <= 128 or unit == "tcgen05" else (64,):
            if rows % keys and not few:
                continue  # whole tiles of keys would not end where rows begin
            for stages in (3, 2) if few else (2, 3):
                bytes_ = (rows * width + keys * (width + features) * stages) * 2
                if bytes_ + 2048 <= device.count("shared_bytes_per_block"):
                    sizes = {m.name: rows, n.name: keys, k.name: width, d.name: features}
                    tiles = tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes)
                    lag = unit == "tcgen05" or (features > _QUICKLY_SCALED and not few)
                    options = (*((("lag", _LAG),) if lag else ()), *((("mma", unit),) if few else ()), ("split", 2))
                    yield Schedule(tiles, stages, warps, options)


def _extent(axis: NestAxis) -> int:
    """Its extent, at least 1; a large number where it is open."""
    return max(axis.extent, 1) if isinstance(axis.extent, int) else 1 << 12
