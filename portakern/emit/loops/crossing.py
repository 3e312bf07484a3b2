"""Values that cross from one loop to another: cheap ones are computed again, others are kept in an array."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.ir.core import Arg, Op
from portakern.ir.tile import Binary, Bitcast, Cast, Compare, For, Load, Select, Store, Unary

from .arrays import LocalArrays
from .elements import Bound, is_leaf, source, unbound
from .items import Items
from .plan import Item

_CHEAP_UNARY = {"neg", "abs", "not", "isnan"}
_CHEAP_BINARY = {"add", "sub", "mul", "max", "min", "and", "or", "xor"}
_CHEAP_OPS = 7


class Crossing:
    """``wanted`` are values that a sibling list reads from a variable."""

    def __init__(self, items: Items, arrays: LocalArrays) -> None:
        self.items, self.arrays = items, arrays
        self.wanted: set[Op] = set()

    def close(self, parts: Sequence[Sequence[Item]], bound: Bound) -> list[list[Item]]:
        """Each part with what it needs: cheap values computed again, others read from where they are kept."""
        home = {i: n for n, part in enumerate(parts) for i in part if isinstance(i, Op)}
        for number, part in enumerate(parts):
            for item in part:
                for o in self.items.operands(item):
                    self._cross(o, home, number, bound)
        closed = [self._with_copies(part, number, home, bound) for number, part in enumerate(parts)]
        return [self._without_dead(part) for part in closed]

    def _cross(self, op: Op, home: dict[Op, int], number: int, bound: Bound) -> None:
        if home.get(op, number) == number or isinstance(op, For):
            return
        if not unbound(op, bound):
            self.wanted.add(op)
        elif op in self.arrays.of:
            return
        elif self.cheap(op, bound):
            for o in self.items.operands(op):
                self._cross(o, home, number, bound)
        else:
            self.arrays.keep(op, bound)

    def _with_copies(self, part: Sequence[Item], number: int, home: dict[Op, int], bound: Bound) -> list[Item]:
        copies: dict[Op, None] = {}

        def need(op: Op) -> None:
            if home.get(op, number) == number or op in copies or op in self.arrays.of or not unbound(op, bound):
                return
            if isinstance(op, For):
                return
            for o in self.items.operands(op):
                need(o)
            copies[op] = None

        for item in part:
            for o in self.items.operands(item):
                need(o)
        return [*copies, *part]

    def _without_dead(self, part: Sequence[Item]) -> list[Item]:
        used: set[Op] = set()
        alive: list[Item] = []
        for item in reversed(part):
            sink = not isinstance(item, Op) or isinstance(item, Store | For) or item in self.wanted
            if sink or item in used or (item in self.arrays.of and item not in self.arrays.written):
                alive.append(item)
                used.update(self.items.operands(item))
        return alive[::-1]

    def cheap(self, op: Op, bound: Bound) -> bool:
        """Whether computing ``op`` again costs less than keeping it: a few loads and simple arithmetic."""
        seen: set[Op] = set()

        def visit(o: Op) -> bool:
            o = source(o)
            if isinstance(o, Arg):
                return o not in self.arrays.of  # a carried array may have moved on
            if o in seen or is_leaf(o):
                return True
            seen.add(o)
            if o in self.arrays.of or (o is not op and not unbound(o, bound)):
                return True
            if isinstance(o, Load):
                return not o.gathers
            simple = (
                isinstance(o, Cast | Compare | Select | Bitcast)
                or (isinstance(o, Unary) and o.fn in _CHEAP_UNARY)
                or (isinstance(o, Binary) and o.fn in _CHEAP_BINARY)
            )
            return simple and len(seen) <= _CHEAP_OPS and all(map(visit, o.operands))

        return visit(op)
