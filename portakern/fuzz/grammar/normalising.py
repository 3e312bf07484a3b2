"""Softmax and the norms as users write them, and what is nearly one of them."""

from __future__ import annotations

from functools import partial

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.elementwise import placed
from portakern.fuzz.grammar.ranges import NORMAL, UNIT, Range
from portakern.fuzz.grammar.reductions import axes_of
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import add, production

USUAL = Range(-1e4, 1e4)
SHIFTED = Range(-60.0, 0.0)


def to_f32(s: FuzzScope, x: Var) -> Var:
    """``x`` in f32, as careful users begin."""
    if x.dtype in ("f32", "f64") or chance(s.draw, 30):
        return x
    return s.let(f"pk.cast({x}, pk.f32)", x.range, "xf")


def back(s: FuzzScope, y: Var, x: Var) -> Var:
    """``y`` rounded to the dtype of ``x``, mostly."""
    return y if y.dtype == x.dtype or chance(s.draw, 40) else s.let(f"pk.cast({y}, {x}.dtype)", y.range)


def _library(fn: str, image: Range, s: FuzzScope) -> Var:
    x = s.number(within=USUAL)
    return s.let(f"pk.{fn}({x}, axis={s.axis(x)})", image)


add("softmax", 2.0, partial(_library, "softmax", UNIT))
add("log_softmax", 1.0, partial(_library, "log_softmax", Range(-1e4, 0.0)))


def shifted_exp(s: FuzzScope, z: Var, axis: int, of: Var | None = None, scale: str = "") -> Var:
    """exp of ``z`` less its maximum (or that of another array) along ``axis``, perhaps scaled."""
    m = s.let(f"pk.max({of or z}, axis={axis}, keepdims=True)", (of or z).range, "m")
    text = f"pk.exp(({z} - {m}) * {scale})" if scale else f"pk.exp({z} - {m})"
    return s.let(text, Range(0.0, 1.0), "e")


def over_sum(s: FuzzScope, e: Var, axis: int) -> Var:
    total = s.let(f"pk.sum({e}, axis={axis}, keepdims=True)", Range(1.0, 300.0), "total")
    return s.let(pick(s.draw, ("{} / {}", "{} * pk.reciprocal({})"), (75, 25)).format(e, total), UNIT)


@production(2.0)
def softmax_by_hand(s: FuzzScope) -> Var:
    x = s.number(within=USUAL)
    z, axis = to_f32(s, x), s.axis(x)
    return back(s, over_sum(s, shifted_exp(s, z, axis), axis), x)


@production(1.5)
def softmax_of_scaled(s: FuzzScope) -> Var:
    """Of x times a number that is known at run time only."""
    x = s.number(within=USUAL)
    tau, axis = s.scalar(), s.axis(x)
    z = s.let(f"{to_f32(s, x)} * {tau}", x.range * NORMAL, "z")
    return over_sum(s, shifted_exp(s, z, axis), axis)


@production(1.0)
def softmax_scaled_inside(s: FuzzScope) -> Var:
    """With the exponent scaled after the maximum was taken."""
    x = s.number(within=USUAL)
    z, axis = to_f32(s, x), s.axis(x)
    scale = str(s.scalar()) if chance(s.draw, 30) else pick(s.draw, ("0.5", "2.0", "0.125"))
    scale = scale if scale[0] != "_" else f"pk.abs({scale})"
    return over_sum(s, shifted_exp(s, z, axis, scale=scale), axis)


@production(1.0)
def softmax_without_max(s: FuzzScope) -> Var:
    z = to_f32(s, s.number(within=Range(-12.0, 10.0)))
    return over_sum(s, s.let(f"pk.exp({z})", UNIT, "e"), s.axis(z))


@production(1.0)
def softmax_other_sum(s: FuzzScope) -> Var:
    """Shifted by the maximum along one axis, divided by the sum along another."""
    z = to_f32(s, s.number((2, 3), within=USUAL))
    e = shifted_exp(s, z, s.axis(z))
    total = s.let(f"pk.sum({e}, axis={s.axis(z)}, keepdims=True)", Range(0.0, 300.0), "total")
    return s.let(f"{e} / ({total} + 1.0)", UNIT)


@production(1.0)
def softmax_two_maxima(s: FuzzScope) -> Var:
    """Shifted by the larger of the maxima of two arrays, both summed."""
    x = to_f32(s, s.number(within=USUAL))
    y, axis = s.like(x.shape, within=USUAL), s.axis(x)
    a = s.let(f"pk.max({x}, axis={axis}, keepdims=True)", x.range)
    b = s.let(f"pk.max({y}, axis={axis}, keepdims=True)", y.range)
    m = s.let(f"pk.maximum({a}, {b})", a.range | b.range, "m")
    e, f = s.let(f"pk.exp({x} - {m})", UNIT), s.let(f"pk.exp({y} - {m})", UNIT)
    total = s.let(f"pk.sum({e}, axis={axis}, keepdims=True) + pk.sum({f}, axis={axis}, keepdims=True)", Range(1.0, 600.0))
    return s.let(f"({e} - {f}) / {total}", UNIT)


@production(1.0)
def softmax_masked(s: FuzzScope) -> Var:
    x = s.number((2, 3, 4), within=USUAL)
    xf = to_f32(s, x)
    i, j = f"pk.arange({xf}.shape[-2])[:, None]", f"pk.arange({xf}.shape[-1])[None, :]"
    mask = pick(s.draw, (f"{i} >= {j}", f"{j} - {i} < 3", f"({i} + {j}) % 3 != 0"))
    z = s.let(f"pk.where({mask}, {xf}, -1e4)", x.range, "z")
    return s.let(f"pk.softmax({z}, axis={s.axis(z)})", UNIT)


@production(4.0)
def softmax_of_a_part(s: FuzzScope) -> Var:
    """Of the first or the last elements of a line: elsewhere it is -inf, and so it is for whole tiles."""
    x = s.number(within=USUAL)
    xf, axis = to_f32(s, x), s.axis(x)
    i = placed(f"pk.arange({x}.shape[{axis}])", [j == axis for j in range(x.rank)])
    inside = pick(s.draw, ("{0} * 2 >= {1} - 1", "{0} * 8 >= {1} * 7 - 8", "{0} * 4 < {1}"))
    mask = inside.format(i, f"{x}.shape[{axis}]")
    z = s.let(f'pk.where({mask}, {xf}, -float("inf"))', x.range, "z")
    kind = pick(s.draw, ("by hand", "sums", "library", "logsumexp"))
    if kind == "library":
        return s.let(f"pk.softmax({z}, axis={axis})", UNIT)
    if kind == "logsumexp":
        return s.let(f"pk.logsumexp({z}, axis={axis})", x.range + Range(0.0, 10.0))
    e = shifted_exp(s, z, axis)
    return over_sum(s, e, axis) if kind == "by hand" else s.let(f"pk.sum({e}, axis={axis})", Range(0.0, 300.0))


@production(1.0)
def cross_entropy_like(s: FuzzScope) -> Var:
    """The logsumexp of rows less the element that a label picks."""
    x = s.number((2,), within=USUAL)
    label = s.input(x.shape[:1], pick(s.draw, ("i32", "i64")), "label", below=x.shape[1])
    picked = s.let(f"pk.take_along({x}, {label}[:, None], axis=1)[:, 0]", x.range, "picked")
    return s.let(f"pk.logsumexp({x}, axis=-1) - {picked}", x.range + x.range)


# ---- norms --------------------------------------------------------------------------------------------------------------


@production(1.5)
def rms_norm(s: FuzzScope) -> Var:
    x = s.number(within=Range(-100.0, 100.0))
    xf, axes = to_f32(s, x), axes_of(s, x)
    y = s.let(f"{xf} * pk.rsqrt(pk.mean({xf} * {xf}, axis={axes}, keepdims=True) + 1e-5)", Range(-30.0, 30.0))
    if chance(s.draw, 50):
        return back(s, y, x)
    w = s.like(x.shape[-1:], hint="w")
    return s.let(f"{back(s, y, x)} * {w}", Range(-30.0, 30.0) * w.range)


@production(1.5)
def layer_norm(s: FuzzScope) -> Var:
    x = s.number(within=Range(-100.0, 100.0))
    xf, axes = to_f32(s, x), axes_of(s, x)
    d = s.let(f"{xf} - pk.mean({xf}, axis={axes}, keepdims=True)", xf.range + xf.range, "d")
    v = s.let(f"pk.mean({d} * {d}, axis={axes}, keepdims=True)", Range(0.0, xf.range.reach**2), "v")
    eps = s.param(1e-3, 1e-5, "eps") if chance(s.draw, 20) else "1e-5"
    return back(s, s.let(f"{d} * pk.rsqrt({v} + {eps})", Range(-30.0, 30.0)), x)


@production(1.0)
def norm_other_axes(s: FuzzScope) -> Var:
    """Centred along some axes and scaled along others."""
    x = to_f32(s, s.number((2, 3), within=Range(-100.0, 100.0)))
    d = s.let(f"{x} - pk.mean({x}, axis={axes_of(s, x)}, keepdims=True)", x.range + x.range, "d")
    return s.let(f"{d} / (pk.std({x}, axis={axes_of(s, x)}, keepdims=True) + 0.1)", Range(-100.0, 100.0))


@production(0.7)
def norm_of_another(s: FuzzScope) -> Var:
    """An array scaled by the statistics of another."""
    x = s.number(within=Range(-100.0, 100.0))
    y = s.like(x.shape, within=Range(-100.0, 100.0))
    r = s.let(f"pk.sum({y} * {y}, axis={s.axis(y)}, keepdims=True)", Range(0.0, y.range.reach**2 * 300))
    return s.let(f"{x} / pk.sqrt({r} + 1.0)", x.range)


@production(0.7)
def l2_norm(s: FuzzScope) -> Var:
    x = to_f32(s, s.number(within=Range(-100.0, 100.0)))
    return s.let(f"{x} / pk.sqrt(pk.sum(pk.square({x}), axis={axes_of(s, x)}, keepdims=True) + 1e-6)", Range(-1.0, 1.0))


@production(0.7)
def min_max_norm(s: FuzzScope) -> Var:
    x = s.number(within=USUAL)
    lo = s.let(f"pk.min({x}, axis={s.axis(x)}, keepdims=True)", x.range, "lo")
    hi = s.let(f"pk.max({x}, axis={s.axis(x)}, keepdims=True)", x.range, "hi")
    return s.let(f"({x} - {lo}) / (pk.abs({hi} - {lo}) + 0.5)", Range(-50.0, 50.0))


@production(1.0)
def group_norm(s: FuzzScope) -> Var:
    """Over a group of channels and what lies behind them."""
    groups = pick(s.draw, (2, 4))
    b, c, n = s.dim(), s.fresh_dim(), s.dim()
    x = s.input((b, c * groups, n))
    g = s.let(f"pk.cast({x}, pk.f32).reshape({x}.shape[0], {groups}, -1, {x}.shape[2])", x.range, "g")
    d = s.let(f"{g} - pk.mean({g}, axis=(2, 3), keepdims=True)", x.range + x.range, "d")
    y = s.let(f"{d} * pk.rsqrt(pk.mean({d} * {d}, axis=(2, 3), keepdims=True) + 1e-5)", Range(-30.0, 30.0))
    return back(s, s.let(f"{y}.reshape({y}.shape[0], -1, {y}.shape[3])", y.range), x)
