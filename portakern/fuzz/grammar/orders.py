"""What puts elements in order: sorts, their places, the largest few, and what users make of them."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production
from portakern.fuzz.grammar.views import bounded

LONG = 4096
"""Twice as much as a group of threads sorts at once."""


def _ordered(s: FuzzScope) -> tuple[Var, str]:
    """An array with an order, and as text: of whole numbers many are equal, roots of negative ones are NaN, of the sign that
    the machine gives it."""
    x = s.operand(lambda v: v.rank in (1, 2, 3) and (v.is_number or v.is_int), lambda: s.input(s.shape((2, 1, 3))))
    return x, pick(s.draw, ("{}", "pk.round({})", "pk.sqrt({})"), (50, 35, 15)).format(x) if x.is_number else str(x)


def _how(s: FuzzScope, x: Var) -> str:
    axis = s.axis(x) if chance(s.draw, 60) else x.rank - 1
    if chance(s.draw, 30):  # by ranks
        s.open.add(x.shape[axis])
    return (f", axis={axis}" if axis < x.rank - 1 else "") + (", descending=True" if chance(s.draw, 35) else "")


@production(3.0)
def sort(s: FuzzScope) -> Var:
    x, text = _ordered(s)
    return s.let(f"pk.sort({text}{_how(s, x)})", x.range)


@production(2.0)
def argsort(s: FuzzScope) -> Var:
    x, text = _ordered(s)
    return s.let(f"pk.argsort({text}{_how(s, x)})", Range(0.0, 1000.0))


@production(2.5)
def topk(s: FuzzScope) -> Var:
    """The largest few, or where they are; perhaps weights made of them, as routers to experts have."""
    x, text = _ordered(s)
    axis = s.axis(x)
    if not bounded(x, axis):
        x = s.input((*x.shape[:1], s.fresh_dim()) if x.rank > 1 else (s.fresh_dim(),))
        text, axis = str(x), x.rank - 1
    k = pick(s.draw, (2, 1, 3, 5))
    found = f"pk.topk({text}, {k}{f', {axis}' if axis != x.rank - 1 else ''})"
    needs = [Need(x.shape[axis], k)]
    if chance(s.draw, 40):
        return s.let(f"{found}[1]", Range(0.0, 1000.0), needs=needs)
    y = s.let(f"{found}[0]", x.range, needs=needs)
    return s.let(f"pk.softmax({y})", UNIT) if y.is_number and chance(s.draw, 40) else y


@production(2.0)
def long_line_in_order(s: FuzzScope) -> Var:
    """More than a tile sorts: sorted in runs, which are merged; many elements are equal."""
    x = s.input((s.fresh_dim(),))
    how = pick(s.draw, ("", ", descending=True"))
    return s.let(f"pk.argsort(pk.round({x}){how})", Range(0.0, 5000.0), needs=[Need(x.shape[0], LONG)])


@production(1.0)
def taken_in_order(s: FuzzScope) -> Var:
    """One array in the order of another."""
    x = s.number((1, 2))
    y = s.like(x.shape)
    axis = s.axis(x)
    i = s.let(f"pk.argsort({x}, axis={axis})", Range(0.0, 1000.0))
    return s.let(f"pk.take_along({y}, {i}, axis={axis})", y.range | UNIT)


@production(1.0)
def sums_of_sorted(s: FuzzScope) -> Var:
    """As sampling from the likeliest has it."""
    x = s.number((2, 1), within=Range(-1e3, 1e3))
    y = s.let(f"pk.sort(pk.softmax({x}), descending=True)", UNIT)
    return s.let(f"pk.cumsum({y}, axis=-1)", UNIT)
