"""Walks that every thread does alone: its own columns of every tile, joined once after the loop.

How the results of two parts of a loop's range join is declared by the loop (``combine``), and the columns that a thread holds
of every tile are such a part.  So a reduction needs no exchange between threads inside the loop.

Every thread begins with the loop's ``init``, which must be the identity then: what a loop around has carried so far would be
counted once for each thread.  Loops that do nothing but carry the values of the loop around on are one walk with it, which is
joined once, at its end.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Place, dims_of
from portakern.emit.clike.maps import Maps
from portakern.emit.clike.names import CNames
from portakern.emit.partials import only_joined
from portakern.ir import tile as t
from portakern.ir.core import Block, Op, Result, yielded

_NOT_ALONE = (t.Store, t.Dot, t.For, t.Scan, t.ScanBy, t.SortBy, t.Permute)


def _walk(op: t.For) -> tuple[t.For, ...]:
    """``op`` and the loops inside, outermost first, that begin with the values it carries and give it the next ones."""
    given = [(v.source, v.index) for v in yielded(op.body) if isinstance(v, Result)]
    for inner in op.body.ops:
        if isinstance(inner, t.For) and inner.init == op.body.args and given == [(inner, n) for n in range(len(op.init))]:
            return (op, *_walk(inner))
    return (op,)


def is_a_part(body: Block, combine: Block) -> bool:
    """Whether what every step joins to the carried values follows from a reduction in ``body``, and so is less where it is of
    one thread's columns.  A sum from before the loop is whole in every thread, and would count once for each."""
    follows: set[Op] = set(body.args)
    for op in body.ops:
        if isinstance(op, t.Reduce) or follows & {*op.operands}:
            follows.add(op)
    return all(term in follows for v, join in zip(yielded(body), yielded(combine), strict=True) for term in _terms(v, join))


def _terms(value: Op, join: Op) -> list[Op]:
    """What ``value`` is the sum of, or the product, where carried values are joined by products."""
    split = ("mul", "div") if isinstance(join, t.Binary) and join.fn == "mul" else ("add", "sub")
    if isinstance(value, t.Binary) and value.fn in split:
        return [*_terms(value.lhs, join), *_terms(value.rhs, join)]
    return [value]


class Alone(Maps):
    """Plans what surrounds such a loop."""

    def walked_alone(self, op: t.For) -> Place | None:
        """The place of the tiles that ``op`` reduces, where each thread may walk its own columns of them."""
        walk = _walk(op)
        axes = {loop.axis for loop in walk}
        inside = [x for x in op.body.walk() if x not in walk]
        if not self.dialect.private_walks or not op.combine.ops or any(isinstance(x, _NOT_ALONE) for x in inside):
            return None
        if not all(isinstance(x, t.Const) for x in op.init):
            return None
        if any(dims_of(a) or DTYPES[t.tile_type(a).dtype].bits < 32 for a in op.body.args):
            return None
        if not is_a_part(walk[-1].body, op.combine):
            return None
        reduces = [x for x in inside if isinstance(x, t.Reduce)]
        places = {self.layouts.place(x.x) or self._any_place(dims_of(x.x)) for x in reduces if dims_of(x.x)}
        if len(places) != 1 or any(len(dims_of(x.x)) != 1 for x in reduces):
            return None
        if any(x.axis not in axes and only_joined(x, walk[-1].body) is None for x in reduces):
            return None
        place = places.pop()
        return place if place is not None and place.side == "tile" and place.layout.kind == "rows" else None

    def joined(self, op: t.For, carried: list[str], place: Place) -> None:
        """Join what the threads carried out of ``op``; its results are fields of the whole."""
        whole, part = self.names.fresh("whole"), self.names.fresh("Part")
        fields = tuple((t.tile_type(a).dtype, name) for a, name in zip(op.body.args, carried, strict=True))
        names = CNames(self.names.taken | set(carried))
        sides = names.fresh("one"), names.fresh("two")
        locals_, results = self.function_of_two(op.combine, [name for _, name in fields], sides, names)
        self.add(p.Combine(whole, part, fields, place, sides, locals_, results,
                           note="every thread has walked its own columns: join what they found"))
        for i, name in enumerate(carried):
            self.results[op, i] = f"{whole}.{name}"
