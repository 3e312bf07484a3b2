"""Which axis vectors lie along: the one along which most of the memory that is touched is contiguous."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from portakern.ir.core import Op
from portakern.ir.tile import For, Kernel, Load, Store

from .arrays import LocalArrays
from .elements import Bound, lead_axis
from .items import Items
from .plan import Item, LocalStore


class Vectors:
    """Answers for a list of items which axis is walked next and in how many lanes."""

    def __init__(self, kernel: Kernel, items: Items, arrays: LocalArrays) -> None:
        self.kernel, self.items, self.arrays = kernel, items, arrays

    def axis(self, candidates: Sequence[str], items: Sequence[Item], bound: Bound) -> str:
        """The one of ``candidates`` to walk next: that of the vectors comes last."""
        vector = self.contiguous(items, bound)
        rest = [a for a in candidates if a != vector] or list(candidates)
        return max(rest, key=lambda a: sum(a in self.items.involved(i) for i in items))

    def lanes(self, axis: str, items: Sequence[Item], bound: Bound, wide: bool) -> int:
        if wide or self.contiguous(items, bound) != axis:
            return 1
        a = self.kernel.axis[axis]
        reach = min(a.tile, a.extent) if isinstance(a.extent, int) else a.tile
        return min(self.arrays.lanes, 1 << max(reach - 1, 0).bit_length())

    def contiguous(self, items: Sequence[Item], bound: Bound) -> str | None:
        """The axis along which most of the memory these items touch is contiguous; stores count more."""
        score = dict.fromkeys(self.items.free(items, bound), 0)

        def count(axis: str | None, weight: int, axes: Iterable[str]) -> None:
            if axis in score:
                score[axis] += weight * prod(self.kernel.axis[a].tile for a in axes)  # type: ignore[index]

        for item in items:
            for op in item.body.walk() if isinstance(item, For) else (item,):
                if isinstance(op, Load | Store):
                    count(lead_axis(self.kernel, op), 3 if isinstance(op, Store) else 2, self.items.involved(op))
                if isinstance(op, LocalStore) and op.storage.axes:
                    count(op.storage.axes[-1], 3, op.storage.axes)
                if isinstance(op, Op | LocalStore):
                    for o in self.items.operands(op):
                        if o in self.arrays.of and self.arrays.of[o].axes:
                            count(self.arrays.of[o].axes[-1], 1, self.arrays.of[o].axes)
        order = list(score)
        return max(order, key=lambda a: (score[a], order.index(a)), default=None)
