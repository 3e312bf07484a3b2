"""Which operands are packed first (:mod:`portakern.emit.packing`): those of large products that the copy engine cannot reach.

The engine wants rows that begin at multiples of 16 bytes.  Where an operand has others (an odd number of columns, say), a
packed copy makes the product, which reads it many times, a pipeline.
"""

from __future__ import annotations

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit import packing
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.ir import tile as t
from portakern.ir.program import Program
from portakern.ir.size import Size

from .planning import MISALIGNED, loads_of, obstacle_to_map

LEAST, SHORTEST = 1 << 26, 64
"""Multiply-adds, and rows, columns and depth, from which a product is packed: below, it is over as fast by threads that copy
element by element.  On an H100, in Triton, which packs alike: 1009 x 1013 x 1019 14.9 us packed, 47.7 at best element by
element in CUDA C++; 127 x 8191 x 2039 46.2 and 71.4; 8191 x 127 x 511 16.2 and 32.3."""


def packed(program: Program, target: Target) -> Program:
    """``program`` with operands packed for those of its kernels that gain by it; itself where there are none."""
    return packing.packed(program, lambda kernel: _wanting(kernel, target))


def worth_packing(m: Size, n: Size, k: Size) -> bool:
    return all(isinstance(x, int) for x in (m, n, k)) and min(m, n, k) >= SHORTEST and m * n * k >= LEAST  # type: ignore[operator]


def _wanting(kernel: t.Kernel, target: Target) -> list[t.Load]:
    """The loads of operands that must be packed, and can be."""
    dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
    if len(dots) != 1 or not target.device.has("tma") or kernel.schedule is None:
        return []
    if kernel.schedule.option("copies", "auto") == "threads" or kernel.schedule.option("mma", "auto") == "sync":
        return []
    loads = loads_of(dots[0])
    extents = [kernel.axis[a].extent for a in (*(x for x, _ in dims_of(dots[0])), dots[0].axis)]
    if loads is None or not worth_packing(*extents) or DTYPES[t.buffer_type(loads[0].buffer).dtype].bytes != 2:
        return []
    found = []
    for load in loads:
        obstacle = obstacle_to_map(load, [axis for axis, _ in dims_of(load)], kernel)
        if obstacle and (MISALIGNED not in obstacle or not packing.packable(load, kernel)):
            return []
        if obstacle:
            found.append(load)
    return found
