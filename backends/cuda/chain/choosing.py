"""The schedules of products of products that a producer feeds to warpgroups."""

from __future__ import annotations

import math
from collections.abc import Iterator

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.emit.chains import WHOLE
from portakern.ir.schedule import Nest, NestAxis, Schedule

from ..hopper.planning import UNITS

TILES = ((128, 128, 8), (128, 64, 8), (64, 128, 4), (64, 64, 4))
"""Rows of a block, columns of its products, and warps.  A wider product reads its left operand less often for each of them: the
gradient of queries of 64 features took 1879 us on an H200 by 128 keys and 2064 by 64 (causal 1110 and 1159), of 128 features
2702 and 2821.  Where two results are summed there are no registers for it."""

REGISTERS = 200
"""32-bit registers of a thread that products may take; the producer leaves it 240."""

FEW = 32
"""Rows or columns that leave most of a tile empty."""

BARRIERS = 1024
"""Bytes of shared memory for the rings' barriers, and more than enough."""


def chains(nest: Nest, device: Device) -> Iterator[Schedule]:
    """Best first; none where the copy engine cannot fetch rows or a block of rows would be nearly empty."""
    dtype = nest.dots or nest.io_dtype
    if dtype not in ("bf16", "f16") or nest.scores not in ("", dtype) or not all(map(device.has, ("tma", "wgmma"))):
        return
    rows, cols, whole = nest.role("m"), nest.role("n"), [a for a in nest.axes if a.role in WHOLE]
    granule = 16 // DTYPES[dtype].bytes
    if len(rows) != 1 or len(cols) != 1 or not whole:
        return
    if not all(isinstance(a.extent, int) and 0 < a.extent <= 256 and a.extent % granule == 0 for a in whole):
        return
    if any(isinstance(a.extent, int) and a.extent <= FEW for a in (*rows, *cols)):
        return
    widths = {a.name: -(-_extent(a) // 64) * 64 for a in whole}
    left, summed = (sum(widths[a.name] for a in whole if role in a.role) for role in "kd")
    widest = max(widths.values())
    streamed = left + sum(widths[a.name] for a in whole if a.role == "d")
    blocks = math.prod(_extent(a) for a in nest.role("batch")) * -(-_extent(rows[0]) // 128)
    few = blocks < device.count("units", UNITS) or _extent(rows[0]) <= 64
    for height, width, warps in sorted(TILES, key=lambda x: few and x[0] > 64):
        for stages in (2, 3):
            bytes_ = (height * left + width * streamed * stages) * 2 + BARRIERS
            registers = height * (summed + 2 * width) // (32 * warps)
            if width > 64 and summed > widest:
                continue
            if bytes_ <= device.count("shared_bytes_per_block") and registers <= REGISTERS:
                sizes = {rows[0].name: height, cols[0].name: width, **widths}
                yield Schedule(tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes), stages, warps, SPLIT)


SPLIT = (("split", 1),)
"""Tiles that no row of a block masks are walked by themselves.  By mma.sync, gradients of causal attention (B=4, H=8, G=4, 4096
queries and keys, bf16) took 6123 us on an H200 so, 7099 with all tiles masked; of 128 features 9993 and 10248."""


def _extent(axis: NestAxis) -> int:
    """Its extent; a large number where it is open."""
    return axis.extent if isinstance(axis.extent, int) else 1 << 12
