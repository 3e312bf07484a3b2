"""What is read off sorted lines and counted in bins: middles, most frequent ones, places among edges."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production
from portakern.fuzz.grammar.views import bounded

PLACES = Range(0.0, 5e3)
LENGTHS = (5, 1, 16, 33, 100)
"""Of lines whose length must be a number."""


def _line(s: FuzzScope) -> tuple[Var, int]:
    """An array with a known number of elements along an axis, many of them equal."""
    x = s.operand(lambda v: v.rank in (1, 2) and (v.is_number or v.is_int), lambda: s.input(s.shape((2, 1))))
    axis = s.axis(x)
    if not bounded(x, axis):
        x, axis = s.input((s.fresh_dim(), s.fresh_dim())), 1
    return (s.let(f"pk.round({x})", x.range), axis) if x.is_number and chance(s.draw, 50) else (x, axis)


def _along(x: Var, axis: int) -> str:
    return f", axis={axis}" if axis < x.rank - 1 else ""


@production(0.8)
def middle(s: FuzzScope) -> Var:
    fn = pick(s.draw, ("median", "mode", "kthvalue"))
    if fn == "median":
        x = s.input((s.dim(), pick(s.draw, LENGTHS))[:: pick(s.draw, (1, -1))])
        axis = 1 if isinstance(x.shape[1], int) else 0
        return s.let(f"pk.median({x}{_along(x, axis)})", x.range)
    x, axis = _line(s)
    if fn == "mode":
        return s.let(f"pk.mode({x}{_along(x, axis)})", x.range, needs=[Need(x.shape[axis], 1)])
    k = pick(s.draw, (1, 2, 3))
    part = pick(s.draw, (0, 1))
    holds = PLACES if part else x.range
    return s.let(f"pk.kthvalue({x}, {k}{_along(x, axis)})[{part}]", holds, needs=[Need(x.shape[axis], k)])


@production(0.5)
def different(s: FuzzScope) -> Var:
    """The different elements of lines, or how many of each there are."""
    x, axis = _line(s)
    part = pick(s.draw, (0, 1, 2))
    holds = x.range | Range(0.0, 0.0) if part == 0 else PLACES
    return s.let(f"pk.unique_counts({x}{_along(x, axis)})[{part}]", holds, needs=[Need(x.shape[axis], 1)])


@production(0.7)
def in_bins(s: FuzzScope) -> Var:
    """How many elements lie between edges, or are each number."""
    if chance(s.draw, 50):
        x, edges = s.number((1, 2)), pick(s.draw, ("pk.arange(9, pk.f32) * 0.5 - 2.0", "pk.arange(2, pk.f32)"))
        return s.let(f"pk.histogram(pk.cast({x}, pk.f32), {edges})", PLACES)
    n = pick(s.draw, (5, 1, 17, 64))
    x = s.input(s.shape((1, 2), (70, 30)), pick(s.draw, ("i32", "i64")), "index", below=pick(s.draw, (n, 0)))
    if chance(s.draw, 50):
        return s.let(f"pk.bincount({x}, {n})", PLACES)
    w = s.like(x.shape, "f32", "weights", within=Range(-100.0, 100.0))
    return s.let(f"pk.bincount({x}, {n}, {w})", w.range.summed())


@production(0.7)
def searched(s: FuzzScope) -> Var:
    """Where values would be put into a line in order."""
    line = s.input((pick(s.draw, LENGTHS),), "f32", "line")
    ordered = s.let(f"pk.sort({line})", line.range)
    values = s.number((1, 2, 3))
    right = ", right=True" if chance(s.draw, 50) else ""
    return s.let(f"pk.searchsorted({ordered}, pk.cast({values}, pk.f32){right})", PLACES)
