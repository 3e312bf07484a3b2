"""Walks over keys whose next scores are multiplied before the weights of this step are.

With ``ahead`` in the schedule of attention a step gets the scores of its tile from the step before, and computes those of the
next tile between its weights and their product with the values.  What the copy engine brings for a step then has the time of
a step to arrive.  The last tile is a step behind the loop: it alone may reach past the keys.

``ahead=1``: sums are scaled before the next scores, so that both products follow each other and nothing is under way while
weights are computed; another block of the unit multiplies then.  ``ahead=2``: the product of the weights goes on during the
next step.  On Hopper it reads them from registers until it is waited for, which is after the next scores: only then may they
be rounded to the 16 bits that it takes, so both are alive for a while.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from portakern.emit.python_like import reads
from portakern.ir.core import Arg, Block, Op, Yield, yielded
from portakern.ir.tile import Binary, Broadcast, Cast, Compare, Const, Coord, Dot, Extent, For, Kernel, Select, Start, tile_type

OPTION = "ahead"
SCALED_FIRST = 1
"""The value of the option with which no product is under way between two steps."""
_ANYWHERE = (Arg, Const, Extent, Coord, Start, Broadcast)


@dataclass(frozen=True)
class Turned:
    """A step in three parts: the scores of a tile, what becomes of them, and what follows the next tile's scores; ``body`` is
    the last two, and ``at_once`` what is not put off until it is used."""

    scores: tuple[Op, ...]
    before: tuple[Op, ...]
    after: tuple[Op, ...]
    body: Block
    at_once: frozenset[Op]


def turned(kernel: Kernel, loop: For, named: Collection[Op]) -> Turned | None:
    """The parts of a step where the schedule asks for it, and where a walk is known to have a step and two products, one of
    which needs nothing that is carried."""
    if not kernel.schedule.option(OPTION, 0) or loop.lo is not None or not _has_a_step(kernel, loop):
        return None
    ops = [op for op in loop.body.ops if not isinstance(op, Yield)]
    dots = [op for op in ops if isinstance(op, Dot)]
    if len(dots) != 2 or any(op.regions for op in ops):
        return None
    first, last = dots
    scores = _needed(first, ops)
    late = {op for op in ops if op not in scores and _depends(op, (*loop.body.args, first))}
    if any(arg in _reach(first) for arg in loop.body.args) or last not in late:
        return None
    others = [op for op in ops if op not in scores]
    if any(o in scores and o is not first and not isinstance(o, _ANYWHERE) for op in others for o in op.operands):
        return None  # a tile that both products take, which the next one replaces
    ending = [op for op in others if _depends(op, (last,))]
    sooner = {x for op in late if op not in ending for x in (op, *_reach(op))}
    after = [op for op in others if op in ending or (op in _reach(last) and op not in sooner)]
    if any(first in reads(op, named) for op in after):
        return None
    before = [op for op in others if op not in after]
    body = Block(loop.body.args, (*before, *after, *(op for op in loop.body.ops if isinstance(op, Yield))))
    sooner_still = last.operands if kernel.schedule.option(OPTION, 0) == SCALED_FIRST else ()
    at_once = {op for op in before if op in yielded(loop.body) or (op in sooner_still and isinstance(op, Binary | Cast))}
    return Turned(tuple(op for op in ops if op in scores), tuple(before), tuple(after), body, frozenset(at_once))


def guard(op: Op) -> tuple[Compare, Op, Op, Op] | None:
    """Of a choice that is made only from some tile of a walk on: the comparison that says where it is not yet made, the
    condition from there on, and what is chosen then where it holds and where not."""
    if not isinstance(op, Select) or not isinstance(op.condition, Binary) or op.condition.fn != "or":
        return None
    whole, condition = op.condition.lhs, op.condition.rhs
    while isinstance(whole, Broadcast):
        whole = whole.x
    if not isinstance(whole, Compare) or whole.fn != "lt" or tile_type(whole).dims or not isinstance(whole.lhs, Start):
        return None
    return whole, condition, op.yes, op.no


def never_before_last(kernel: Kernel, loop: For, whole: Compare) -> bool:
    """Whether ``whole`` holds of all tiles of ``loop`` but its last."""
    end, middle = _linear(loop.hi), _linear(whole.rhs)
    if end is None or middle is None or loop.axis != getattr(whole.lhs, "axis", ""):
        return False
    return end[0] == middle[0] and end[1] - kernel.axis[loop.axis].tile <= middle[1]


def _has_a_step(kernel: Kernel, loop: For) -> bool:
    extent = kernel.axis[loop.axis].extent
    return isinstance(extent, int) and extent > 0 and (loop.hi is None or _positive(loop.hi))


def _positive(op: Op) -> bool:
    found = _linear(op)
    if found is not None:
        return found[1] > 0
    return isinstance(op, Binary) and op.fn == "min" and _positive(op.lhs) and _positive(op.rhs)


def _linear(op: Op | None) -> tuple[tuple[str, ...], int] | None:
    """An integer as a sum of starts of tiles, none of which is negative, and a number."""
    match op:
        case Cast(x=x):
            return _linear(x)
        case Start(axis=axis):
            return (axis,), 0
        case Const(value=int() as value) | Extent(size=int() as value):
            return (), value
        case Binary(fn="add", lhs=lhs, rhs=rhs):
            a, b = _linear(lhs), _linear(rhs)
            return None if a is None or b is None else (tuple(sorted((*a[0], *b[0]))), a[1] + b[1])
    return None


def _reach(op: Op) -> set[Op]:
    """All that ``op`` is computed from."""
    found: set[Op] = set()
    waiting = list(op.operands)
    while waiting:
        x = waiting.pop()
        if x not in found:
            found.add(x)
            waiting += x.operands
    return found


def _needed(op: Op, ops: list[Op]) -> set[Op]:
    within = set(ops)
    return {x for x in (op, *_reach(op)) if x in within}


def _depends(op: Op, on: tuple[Op, ...]) -> bool:
    return op in on or not _reach(op).isdisjoint(on)
