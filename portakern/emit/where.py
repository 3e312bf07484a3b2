"""The operator's line that a refusal names: of what is refused, or the nearest to it that is known."""

from __future__ import annotations

from portakern.ir.core import Loc, Op
from portakern.ir.program import Array, Program
from portakern.ir.tile import Kernel


def where(program: Program, *of: Op | Array | Kernel | None) -> str:
    """``file:line`` of the first of these that comes from a line, else of the first line that ``program`` knows.

    What lowering makes by itself (an index, a bound) comes from no line; name its kernel after it.
    """
    for x in (*of, *program.kernels, *program.arrays):
        if (loc := _loc(x)) is not None:
            return str(loc)
    return ""


def _loc(x: Op | Array | Kernel | None) -> Loc | None:
    if isinstance(x, Kernel):
        return next((op.loc for op in x.body.walk() if op.loc is not None), None)
    return x.loc if x is not None else None
