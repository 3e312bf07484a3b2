"""How far along a walked axis a row looks: what follows from a mask and from where the walk ends."""

from __future__ import annotations

import math
from collections.abc import Iterable

from portakern.ir.core import Op
from portakern.ir.tile import Binary, Broadcast, Compare, Const, Coord, Extent, For, Kernel, Select, Start, tile_type

from .constants import filled_with


def causal_axes(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """Pairs (m, n) of axes where row i of m needs no element of n beyond i: a loop over n ends with the block's last row,
    and the test that says so puts -inf in the place of what comes after."""
    found = []
    for loop in kernel.body.walk():
        if isinstance(loop, For) and (m := _ends_with(loop.hi, kernel)) and _masked(loop.body.ops, m, loop.axis):
            found.append((m, loop.axis))
    return tuple(dict.fromkeys(found))


def _ends_with(hi: Op | None, kernel: Kernel) -> str | None:
    """The axis whose block ends at ``hi``."""
    if not isinstance(hi, Binary) or hi.fn != "add" or not isinstance(hi.lhs, Start):
        return None
    count = hi.rhs.size if isinstance(hi.rhs, Extent) else hi.rhs.value if isinstance(hi.rhs, Const) else None
    return hi.lhs.axis if count == kernel.axis[hi.lhs.axis].tile else None


def _masked(ops: Iterable[Op], m: str, n: str) -> bool:
    return any(isinstance(op, Select) and isinstance(op.condition, Compare) and _compares(op.condition) == (m, n)
               and (fill := filled_with(op.no)) is not None and fill.value == -math.inf for op in ops)


def _compares(test: Compare) -> tuple[str, str] | None:
    """The axes (m, n) of a test that m's coordinate is at least n's."""
    sides = [_coordinate(x) for x in (test.lhs, test.rhs)]
    if None in sides or test.fn not in ("ge", "le"):
        return None
    return (sides[0], sides[1]) if test.fn == "ge" else (sides[1], sides[0])  # type: ignore[return-value]


def _coordinate(op: Op) -> str | None:
    while isinstance(op, Broadcast):
        op = op.x
    return op.axis if isinstance(op, Coord) and tile_type(op).dims else None
