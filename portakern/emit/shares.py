"""Into how many parts long rows are cut where there are too few of them to keep a device busy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import ceil, prod

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, NestAxis, Schedule

ALONE = 16.0
"""Bytes per ns that one block draws from memory: on an H200, 64 blocks of 8 warps that normalised 64 groups of 200,704 elements
(group_norm of 32 x 128 x 56 x 56, bf16) drew 1.0 TB/s together, where 132 could have drawn 4.8."""

BUSY = 2.25
"""Such blocks that a unit needs for its share of the memory's rate (4.8 TB/s over 132 units, by ``ALONE``)."""

KERNEL_NS = 2500.0
"""What one more kernel takes before and after its work, behind another one."""

LEAST_TILES = 4
"""Tiles of a row that a part has at least."""


def in_parts(schedules: Iterable[Schedule], nest: Nest, device: Device) -> Iterator[Schedule]:
    """Each of ``schedules`` of a ``rows`` nest, where it pays after one by which several blocks share a row."""
    for schedule in schedules:
        parts = 1 if nest.of_windows else row_parts(nest, device, dict(schedule.tiles))
        if parts > 1:
            yield replace(schedule, options=tuple(sorted({**dict(schedule.options), "split_k": parts}.items())))
        yield schedule


def row_parts(nest: Nest, device: Device, tiles: Mapping[str, int]) -> int:
    """How many blocks should share the reduced axes of a ``rows`` nest that is tiled as ``tiles`` says (1: one block walks
    them).  Each level of reductions becomes two kernels then, so the time that idle units would save must be twice what these
    cost.  Rows whose number or length is open are walked by one block."""
    blocks = prod(_steps(a, tiles) for a in nest.role("parallel"))
    steps = prod(_steps(a, tiles) for a in nest.role("reduced"))
    wanted = BUSY * device.count("units", 128)
    if not 0 < blocks < wanted or steps <= 0:
        return 1
    elements = prod(a.extent for a in nest.role("reduced") if isinstance(a.extent, int))
    wide = prod(tiles.get(a.name, 1) for a in nest.role("parallel"))
    alone_ns = nest.passes * elements * wide * DTYPES[nest.io_dtype].bytes / ALONE
    saved_ns, kernels = alone_ns * (1 - blocks / wanted), 2 * (nest.passes - 1)
    return max(1, min(ceil(wanted / blocks), steps // LEAST_TILES)) if saved_ns > 2 * kernels * KERNEL_NS else 1


def _steps(axis: NestAxis, tiles: Mapping[str, int]) -> int:
    """How many tiles cover an axis, 0 where that is open."""
    return -(-axis.extent // tiles.get(axis.name, 1)) if isinstance(axis.extent, int) else 0
