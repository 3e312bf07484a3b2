"""Grid axes over parts of a walk: only parts that have something to walk are grid steps.

A grid step stores a block whether it computes one or not.  Blocks that share a line (``split_k`` of a scan) walk as many tiles
each, so that of few tiles the last blocks have none: theirs would be what another one has stored.
"""

from __future__ import annotations

from portakern.ir.core import Op
from portakern.ir.size import Size
from portakern.ir.tile import Binary, Cast, Const, Extent, For, Kernel, Start, Store


def filled_parts(kernel: Kernel) -> dict[str, str]:
    """How many steps a grid axis over parts has, as text, where what is stored along the walk does not tell parts apart."""
    found: dict[str, str] = {}
    for loop in (op for op in kernel.body.walk() if isinstance(op, For)):
        part = _first_of_part(loop.lo)
        if part is not None and any(isinstance(op, Store) and not _told_apart(op, part[0]) for op in loop.body.walk()):
            found[part[0]] = _steps(kernel.axis[loop.axis].extent, part[1])
    return found


def _first_of_part(lo: Op | None) -> tuple[str, Size] | None:
    """The axis over parts and the length of one, if a walk begins where a part does."""
    while isinstance(lo, Cast):
        lo = lo.x
    if isinstance(lo, Binary) and lo.fn == "mul":
        for start, length in ((lo.lhs, lo.rhs), (lo.rhs, lo.lhs)):
            match start, length:
                case Start(axis=axis), Extent(size=size) | Const(value=int() as size):
                    return axis, size
    return None


def _told_apart(store: Store, part: str) -> bool:
    return any(part in index.axes for index in store.indices)


def _steps(walked: Size, length: Size) -> str:
    if isinstance(walked, int) and isinstance(length, int):
        return str(-(-walked // length))
    return f"pl.cdiv({walked}, max({length}, 1))"
