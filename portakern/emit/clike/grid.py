"""Coordinates of a block's tile from its number."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.emit.clike.terms import PlanTerm, divide, remainder, size_term
from portakern.ir.size import Size, product
from portakern.ir.tile import Axis


def unfolded(number: PlanTerm, axes: Sequence[Axis]) -> dict[str, PlanTerm]:
    """Which tile along each of ``axes`` the linear ``number`` is: the last one varies fastest."""
    found: dict[str, PlanTerm] = {}
    inner: Size = 1
    for axis in reversed(axes):
        tile = number if inner == 1 else divide(number, size_term(inner))
        found[axis.name] = tile if axis is axes[0] else remainder(tile, size_term(axis.steps))
        inner = product((inner, axis.steps))
    return found


def note_of(axis: Axis) -> str:
    """What a coordinate is, for the reader of the kernel."""
    return f"first of {axis.tile} coordinates along {axis.name}" if axis.tile > 1 else f"coordinate along {axis.name}"
