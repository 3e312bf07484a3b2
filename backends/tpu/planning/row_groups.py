"""Rows of positions that one step computes together: the products of a few rows of pixels have rows enough for a matrix unit.

A kernel has the positions along one axis in its tiles, and walks those along the axis before it one by one.  With the option
``rows``, a step takes so many of the outer ones: its blocks have a dim more, and in the kernel both are one dim of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from portakern.ir.size import product
from portakern.ir.tile import Axis, Coord, Index, Kernel, Load, Start, Store, TileType, tile_type

from .blocks import Span
from .layout import LayoutAssignment


@dataclass(frozen=True)
class RowGroup:
    """The spans of ``outer`` and ``inner`` positions, and of both as one axis by the name of the inner."""

    outer: Span
    inner: Span

    @property
    def together(self) -> Span:
        count = self.outer.size * self.inner.size
        extent = product((self.outer.axis.extent, self.inner.axis.extent))
        return Span(Axis(self.inner.axis.name, "grid", extent, count), count, str(count), None)


def row_group_of(kernel: Kernel, spans: Mapping[str, Span], layout: LayoutAssignment) -> RowGroup | None:
    """The rows that are computed together; ``None`` where none are asked for, or where a value depends on one row alone."""
    wanted = kernel.schedule.option("rows", 0)
    tiled = next((n for n, a in enumerate(kernel.grid) if a.tile > 1), 0)
    if not isinstance(wanted, int) or wanted < 2 or not tiled:
        return None
    outer, inner = kernel.grid[tiled - 1], kernel.grid[tiled]
    if outer.extent == 1 or spans[inner.name].size != inner.extent:
        return None
    size = min(wanted, outer.extent) if isinstance(outer.extent, int) else wanted
    group = RowGroup(replace(spans[outer.name], size=size, text=str(size)), spans[inner.name])
    return group if all(_together(op, kernel, group, layout) for op in kernel.body.walk()) else None


def _together(op: object, kernel: Kernel, group: RowGroup, layout: LayoutAssignment) -> bool:
    """Whether ``op`` treats all positions of a group alike."""
    outer, inner = group.outer.axis.name, group.inner.axis.name
    if isinstance(op, Coord | Start) and op.axis in (outer, inner):
        return False
    kind = tile_type(op.value) if isinstance(op, Store) else getattr(op, "type", None)
    if isinstance(kind, TileType) and inner in kind.axes:
        value = op.value if isinstance(op, Store) else op
        if len(kind.axes) != 2 or layout.place(value)[0] != inner:  # type: ignore[arg-type]
            return False
    if isinstance(op, Load | Store):
        axes = [a for i in op.indices for a in i.axes]
        if (outer in axes) != (inner in axes):
            return False
        if isinstance(op, Load) and any(_lie_side_by_side(i, inner, [a for a, _ in op.dims]) for i in op.indices):
            return False
        if outer in axes and isinstance(op, Store):
            at = [n for n, i in enumerate(op.indices) if {outer, inner} & set(i.axes)]
            plain = [op.indices[n] for n in at] == [Index.of(outer), Index.of(inner)]
            return plain and at == [len(op.indices) - 3, len(op.indices) - 2]
    return True


def _lie_side_by_side(index: Index, positions: str, tiled: Sequence[str]) -> bool:
    """Whether neighbouring positions are nearer in the array than what a position takes of it (one channel, taps that lie
    apart): they are the columns of a block then, and not its rows."""
    along = [t for t in index.terms if t.axis in tiled]
    return len(along) > 1 and positions in index.axes and not any(t.scale == 1 for t in along if t.axis != positions)
