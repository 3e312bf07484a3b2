"""Tile sizes.  Tiles live in local arrays here, so they stay small; the compiler vectorises along the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.device import Device
from portakern.ir.schedule import Nest, NestAxis, Schedule

ROW = 1024  # elements of a row taken at once
CONTRACTION = {"m": 16, "n": 64, "k": 64}
ATTENTION = {"m": 8, "n": 32}


def schedules(nest: Nest, device: Device) -> Sequence[Schedule]:
    """The default, then one with tiles half as large along the last axis."""
    space = (Schedule(tuple((a.name, tile(nest, a, part)) for a in nest.axes), stages=1, warps=1) for part in (1, 2))
    return list(dict.fromkeys(space))  # for short axes the two are one


def tile(nest: Nest, axis: NestAxis, part: int) -> int:
    match nest.family:
        case "contraction" | "grouped":
            # An axis with a tile of 1 gives no dim; the axes of a matrix product must be dims even where they are short.
            least = 2 if axis.role in CONTRACTION else 1
            return max(least, fit(axis, CONTRACTION.get(axis.role, 1) // (part if axis.role == "n" else 1)))
        case "attention" | "chain":
            if axis.role in ("k", "d"):  # whole: head sizes are small
                return max(2, axis.extent) if isinstance(axis.extent, int) else 256
            least = 2 if axis.role in ATTENTION else 1
            return max(least, fit(axis, ATTENTION.get(axis.role, 1) // (part if axis.role == "n" else 1)))
        case "rows":
            return fit(axis, ROW // part) if axis == nest.role("reduced")[-1] else 1
        case "sort":
            return 1 if axis.role == "parallel" else fit(axis, ROW)  # lines of up to ROW are sorted whole
        case "transpose":
            return fit(axis, 32 // part) if axis.role in ("source", "target") else 1
    return fit(axis, ROW // part) if axis == nest.axes[-1] else 1


def fit(axis: NestAxis, most: int) -> int:
    """``most``, or the whole axis where it is shorter."""
    return max(1, min(most, axis.extent)) if isinstance(axis.extent, int) else most
