"""Reductions over any axes, their chains, arg-reductions and scans."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from portakern.fuzz.grammar.draws import chance, pick, some
from portakern.fuzz.grammar.ranges import UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import add, production

SMALL = Range(-60.0, 60.0)


def axes_of(s: FuzzScope, x: Var) -> str:
    """Text of the axes to reduce: the last, another, several, or all."""
    if x.rank == 1 or chance(s.draw, 40):
        return pick(s.draw, ("-1", "0"))
    axes = some(s.draw, tuple(range(x.rank))[::-1])
    if len(axes) == x.rank:
        return "None"
    return str(axes[0]) if len(axes) == 1 else repr(tuple(sorted(axes)))


def _same(r: Range) -> Range:
    return r


REDUCE: tuple[tuple[str, float, Callable[[Range], Range]], ...] = (
    ("sum", 5.0, Range.summed),
    ("max", 3.0, _same),
    ("min", 2.0, _same),
    ("mean", 3.0, _same),
    ("var", 1.0, lambda r: Range(0.0, r.reach**2)),
    ("std", 0.7, lambda r: Range(0.0, r.reach)),
    ("logsumexp", 1.0, lambda r: r + Range(0.0, 10.0)),
)


def _reduce(fn: str, image: Callable[[Range], Range], s: FuzzScope) -> Var:
    x = s.number(within=Range(-1e3, 1e3))
    keep = ", keepdims=True" if chance(s.draw, 40) else ""
    return s.let(f"pk.{fn}({x}, axis={axes_of(s, x)}{keep})", image(x.range))


for _fn, _weight, _image in REDUCE:
    add(_fn, _weight, partial(_reduce, _fn, _image))


@production(0.7)
def prod(s: FuzzScope) -> Var:
    x = s.number(within=SMALL)
    near_one = s.let(f"1.0 + {x} * 0.01", Range(0.4, 1.6))
    return s.let(f"pk.prod({near_one}, axis={axes_of(s, near_one)})", Range(1e-3, 1e3))


def _truth(fn: str, s: FuzzScope) -> Var:
    x = s.truth()
    return s.let(f"pk.{fn}({x}, axis={axes_of(s, x)})", UNIT)


for _fn in ("any", "all"):
    add(_fn, 0.7, partial(_truth, _fn))


def _place(fn: str, s: FuzzScope) -> Var:
    """Also of whole numbers, of which many are equal."""
    x = s.operand(lambda v: (v.is_number or v.dtype == "i32") and v.rank > 0, lambda: s.input(s.shape()))
    of = f"pk.round({x})" if x.is_number and chance(s.draw, 50) else x
    axis = s.axis(x)
    return s.let(f"pk.{fn}({of}, axis={axis})", Range(0.0, 1000.0), needs=[Need(x.shape[axis], 1)])


for _fn in ("argmax", "argmin"):
    add(_fn, 3.0, partial(_place, _fn))


@production(1.0)
def reduced_twice(s: FuzzScope) -> Var:
    """Over one axis, then what is left over another."""
    x = s.number((2, 3), within=Range(-1e3, 1e3))
    first, second = pick(s.draw, ("max", "sum", "min", "mean")), pick(s.draw, ("sum", "max", "mean", "min"))
    y = s.let(f"pk.{first}({x}, axis={s.axis(x)})", x.range.summed())
    return s.let(f"pk.{second}({y}, axis={s.axis(y)})", y.range.summed())


@production(1.0)
def reduced_both_ways(s: FuzzScope) -> Var:
    """An array against its statistics along different axes."""
    x = s.number((2, 3), within=Range(-1e3, 1e3))
    first, second = pick(s.draw, ("mean", "max", "sum")), pick(s.draw, ("max", "mean", "sum"))
    a = s.let(f"pk.{first}({x}, axis={s.axis(x)}, keepdims=True)", x.range.summed())
    b = s.let(f"pk.{second}({x}, axis={s.axis(x)}, keepdims=True)", x.range.summed())
    return s.let(f"{x} - {a} + {b}", x.range - a.range + b.range)


@production(1.0)
def reduced_copies(s: FuzzScope) -> Var:
    """Over an axis along which all is equal."""
    x = s.number((2, 1), within=Range(-1e2, 1e2))
    y = s.number((1,), within=Range(-1e2, 1e2))
    lines = s.let(f"pk.broadcast_to({x}[..., None], (*{x}.shape, {y}.shape[0]))", x.range)
    fn = pick(s.draw, ("sum", "mean", "max", "logsumexp"))
    total = s.let(f"pk.{fn}(1.0 - {lines}, axis=-1)", (x.range - UNIT).summed())
    return s.let(f"{total}[..., None] * {y}", total.range * y.range)


@production(1.0)
def count(s: FuzzScope) -> Var:
    """Booleans counted."""
    x = s.truth()
    return s.let(f"pk.sum({x}, axis={axes_of(s, x)})", Range(0.0, 1000.0))


# ---- scans --------------------------------------------------------------------------------------------------------------

SCANS: tuple[tuple[str, Callable[[Range], Range], bool], ...] = (
    ("cumsum", Range.summed, True),
    ("cummax", _same, False),
    ("cummin", _same, False),
)


def _along(s: FuzzScope, x: Var, exclusive: bool) -> str:
    reverse = ", reverse=True" if chance(s.draw, 55) else ""
    return f"axis={s.axis(x)}{reverse}" + (", exclusive=True" if exclusive and chance(s.draw, 40) else "")


def _scan(fn: str, image: Callable[[Range], Range], exclusive: bool, s: FuzzScope) -> Var:
    def fits(v: Var) -> bool:
        return (v.is_number or v.dtype == "i32") and v.rank > 0 and v.range.reach < 1e3

    x = s.operand(fits, lambda: s.input(s.shape()))
    if x.is_number and chance(s.draw, 65):  # what lies past an end and is read as 0 is no longer 0
        return s.let(f"pk.{fn}(1.0 - {x}, {_along(s, x, exclusive)})", image(x.range - UNIT))
    return s.let(f"pk.{fn}({x}, {_along(s, x, exclusive)})", image(x.range))


for _fn, _image, _exclusive in SCANS:
    add(_fn, 4.5, partial(_scan, _fn, _image, _exclusive))


@production(1.5)
def cumprod(s: FuzzScope) -> Var:
    x = s.number(within=SMALL)
    near_one = s.let(f"1.0 + {x} * 0.01", Range(0.4, 1.6))
    return s.let(f"pk.cumprod({near_one}, {_along(s, near_one, True)})", Range(1e-3, 1e3))


@production(0.6)
def decayed_scan(s: FuzzScope) -> Var:
    """A running mean with decaying weights, written with two running sums."""
    x = s.number(within=SMALL)
    axis = s.axis(x)
    w = s.let(f"pk.exp(-pk.abs({x}) * 0.1)", Range(math.exp(-6), 1.0))
    a = s.let(f"pk.cumsum({w} * {x}, axis={axis})", (w.range * x.range).summed())
    return s.let(f"{a} / pk.cumsum({w}, axis={axis})", x.range)
