"""Which operands of products are packed first (:mod:`portakern.emit.packing`): where the schedule says so, those whose rows
do not begin on cache lines.

The copy engine takes rows of whole multiples of 16 bytes only, and fetches cache lines: each piece of a row that begins off
one costs it two instead of one.  A product that has to load much for each multiplication feels both.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.emit import packing
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.program import Program

SIDES = ("none", "m", "n", "both")
"""Values of the schedule's option ``pack``: the operand of the rows, of the columns, or both."""


def packed(program: Program) -> Program:
    """``program`` with operands packed for those of its kernels whose schedule asks for it."""
    return packing.packed(program, _wanting, whole_rows=True)


def _wanting(kernel: t.Kernel) -> list[t.Load]:
    if kernel.family != "contraction" or kernel.schedule is None:
        return []
    asked = kernel.schedule.option("pack", "none")
    if asked not in SIDES:
        raise ScheduleError(f"pack is one of {', '.join(SIDES)}, not {asked}")
    return [op for side in ("m", "n") if asked in (side, "both") for op in _operand(kernel, side)
            if off_lines(t.buffer_type(op.buffer)) and packing.packable(op, kernel)]  # fmt: skip


def _operand(kernel: t.Kernel, side: str) -> list[t.Load]:
    """The load of the operand that has the product's rows or its columns, where there is one."""
    dots = [op for op in kernel.body.walk() if isinstance(op, t.Dot)]
    if len(dots) != 1:
        return []
    axis = t.tile_type(dots[0]).axes["mn".index(side)]
    loads = {op.buffer: op for op in kernel.body.walk() if isinstance(op, t.Load) and len(t.tile_type(op).dims) == 2}
    return [op for op in loads.values() if set(t.tile_type(op).axes) == {axis, dots[0].axis}]


def off_lines(of: t.BufferType) -> bool:
    """Whether rows of an array begin anywhere but on cache lines."""
    *outer, _ = of.element_strides
    size = DTYPES[of.dtype].bytes
    return any(not isinstance(s, int) or s * size % packing.LINE_BYTES for s in outer)
