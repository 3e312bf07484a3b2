"""Where the values of a kernel lie in the vector unit.

Vectors of a TPU are two-dimensional (8 sublanes by 128 lanes), so every tile is a block of two dims.  A tile of the IR
with one dim is kept as a column ``[BM, 1]`` or a row ``[1, BN]``; which of the two follows from what it is reduced from
and broadcast to, found here for whole groups of values that elementwise operations connect.
"""

from __future__ import annotations

from collections import defaultdict

from portakern.emit.running import Running
from portakern.ir.core import Op, Result, yielded
from portakern.ir.tile import (
    ArgReduce,
    Binary,
    Bitcast,
    Broadcast,
    Cast,
    Compare,
    Dot,
    For,
    Kernel,
    Mask,
    Permute,
    Reduce,
    ScanBy,
    Select,
    SortBy,
    TileType,
    Unary,
)

from ..syntax.expressions import BlockAxes
from .whole_lines import Turned

COLUMN, ROW = 0, 1
"""The dim that the axis of a one-dim tile takes: sublanes (a column) or lanes (a row)."""

_ELEMENTWISE = (Unary, Binary, Compare, Select, Cast, Bitcast, Mask, Permute, Broadcast, Running, Turned)


class LayoutAssignment:
    """Answers the place of every tile value of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.parent: dict[Op, Op] = {}
        votes: dict[Op, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for op in kernel.body.walk():
            self._connect(op)
        for op in kernel.body.walk():
            for value, side, weight in _preferences(op):
                votes[self._root(value)][side] += weight
        self.side = {root: COLUMN if v[COLUMN] > v[ROW] else ROW for root, v in votes.items()}

    def _root(self, op: Op) -> Op:
        while op in self.parent:
            op = self.parent[op]
        return op

    def _same(self, a: Op, b: Op) -> None:
        if _dims(a) == _dims(b) and len(_dims(a)) == 1 and (x := self._root(a)) is not (y := self._root(b)):
            self.parent[x] = y

    def _connect(self, op: Op) -> None:
        if isinstance(op, _ELEMENTWISE):
            for operand in op.operands:
                self._same(op, operand)
        elif isinstance(op, ScanBy | SortBy):
            for x in op.xs[1:]:
                self._same(op.xs[0], x)
        elif isinstance(op, Result) and isinstance(op.source, ScanBy | SortBy):
            self._same(op, op.source.xs[0])
        elif isinstance(op, Dot):
            self._same(op, op.acc)
        elif isinstance(op, For):
            for start, arg, end in zip(op.init, op.body.args, yielded(op.body), strict=True):
                self._same(start, arg)
                self._same(arg, end)
        elif isinstance(op, Result) and isinstance(op.source, For):
            self._same(op, op.source.init[op.index])

    def place(self, op: Op) -> BlockAxes:
        """The axes of the two dims of ``op`` when it is spelled out in full."""
        axes = _dims(op)
        if len(axes) == 2:
            return axes[0], axes[1]
        if not axes:
            return None, None
        return (axes[0], None) if self.side.get(self._root(op), ROW) == COLUMN else (None, axes[0])


def _dims(op: Op) -> tuple[str, ...]:
    return op.type.axes if isinstance(op.type, TileType) else ()


def _preferences(op: Op) -> list[tuple[Op, int, float]]:
    """Which side the one-dim values around ``op`` would take by themselves: (value, side, weight)."""
    if isinstance(op, Broadcast) and len(_dims(op)) == 2 and len(_dims(op.x)) == 1:
        return [(op.x, _dims(op).index(_dims(op.x)[0]), 1.0)]
    if isinstance(op, Running) and op.before is not None and len(_dims(op)) == 2 and len(_dims(op.before)) == 1:
        return [(op.before, _dims(op).index(_dims(op.before)[0]), 2.0)]
    if isinstance(op, Reduce) and len(_dims(op.x)) == 2:
        return [(op, 1 - _dims(op.x).index(op.axis), 2.0)]
    if isinstance(op, Result) and isinstance(op.source, ArgReduce) and len(_dims(op.source.x)) == 2:
        return [(op, 1 - _dims(op.source.x).index(op.source.axis), 2.0)]
    if isinstance(op, Dot):
        free = set(_dims(op.lhs)) - {op.axis}
        return [(op, COLUMN if free else ROW, 2.0)] if len(_dims(op)) == 1 else []
    return []
