"""Which operands of products are packed first (:mod:`portakern.emit.packing`): where the schedule says so, those whose rows
do not begin on cache lines.

The copy engine takes rows of whole multiples of 16 bytes only, and fetches cache lines: each piece of a row that begins off
one costs it two instead of one.  A product that has to load much for each multiplication feels both.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.emit import packing
from portakern.ir import tile as t
from portakern.ir.program import Program

OPTION = "pack"


def packed(program: Program) -> Program:
    """``program`` with operands packed for those of its kernels whose schedule asks for it."""
    return packing.packed(program, _wanting)


def _wanting(kernel: t.Kernel) -> list[t.Load]:
    if kernel.family != "contraction" or kernel.schedule is None or not kernel.schedule.option(OPTION, 0):
        return []
    loads = {op.buffer: op for op in kernel.body.walk() if isinstance(op, t.Load) and len(t.tile_type(op).dims) == 2}
    return [op for op in loads.values() if off_lines(t.buffer_type(op.buffer)) and packing.packable(op, kernel)]


def off_lines(of: t.BufferType) -> bool:
    """Whether rows of an array begin anywhere but on cache lines."""
    *outer, _ = of.element_strides
    size = DTYPES[of.dtype].bytes
    return any(not isinstance(s, int) or s * size % packing.LINE_BYTES for s in outer)
