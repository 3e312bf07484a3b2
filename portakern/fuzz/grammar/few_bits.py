"""Numbers of 8 and 4 bits with scales: weights that are dequantised in their product, and rows that are quantised."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.products import TAME
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production

KINDS = ("i8", "i4", "u4", "u8")
GROUPS = (16, 32, 8, 64, 4, 48, 2)
WIDE = Range(-1e3, 1e3)


def _spread(x: object, count: int, axis: int) -> str:
    return f"pk.repeat({x}, {count}, {axis})"


@production(2.0)
def weights_of_few_bits(s: FuzzScope) -> Var:
    """Rows or columns of weights with a scale, and perhaps a zero point, for every group along the summed dim."""
    group, kind, rows = pick(s.draw, GROUPS), pick(s.draw, KINDS), chance(s.draw, 60)
    m, g, n = s.dim(), s.fresh_dim(), s.dim()
    if kind[1] == "4" and not rows:
        n = s.fresh_dim() * 2
    axis = 1 if rows else 0
    shape, small = ((n, g * group), (n, g)) if rows else ((g * group, n), (g, n))
    lead = (s.dim(),) if chance(s.draw, 25) else ()
    x = s.input((*lead, m, g * group), hint="x")
    w, scale = s.input(shape, kind, "w"), s.input(small, "f32" if chance(s.draw, 60) else "", "scale")
    whole = f"pk.cast({w}, {scale}.dtype)"
    if chance(s.draw, 40):
        zero = s.input(small, kind if kind[1] == "8" else "i8", "zero")
        whole = f"({whole} - pk.cast({_spread(zero, group, axis)}, {scale}.dtype))"
    if chance(s.draw, 70):
        wide = f"{whole} * {_spread(scale, group, axis)}"
    else:
        apart = f"{w}.shape[0], -1, {group}" if rows else f"-1, {group}, {w}.shape[1]"
        spread = f"{scale}[:, :, None]" if rows else f"{scale}[:, None, :]"
        wide = f"(({whole}).reshape({apart}) * {spread}).reshape({w}.shape)"
    wide = s.let(f"pk.cast({wide}, {x}.dtype)", WIDE, "wide")
    y = s.let(f"pk.matmul({x}, {wide}{'.T' if rows else ''}, dtype=pk.f32)", Range(-1e6, 1e6))
    return y if chance(s.draw, 50) else s.let(f"pk.silu({y} * 0.01)", Range(-1.0, 1e4))


@production(1.0)
def scales_of_blocks(s: FuzzScope) -> Var:
    """Weights with a scale for every block of rows and columns."""
    high, deep, kind = pick(s.draw, (16, 8, 32, 2, 128)), pick(s.draw, (16, 32, 8, 2)), pick(s.draw, ("i8", "f32", "bf16"))
    m, g, n = s.dim(), s.fresh_dim(), s.fresh_dim()
    x = s.input((m, g * deep), hint="x")
    w, scale = s.input((n * high, g * deep), kind, "w"), s.input((n, g), "f32", "scale")
    spread = _spread(_spread(scale, high, 0), deep, 1)
    wide = s.let(f"pk.cast(pk.cast({w}, pk.f32) * {spread} * 0.1, {x}.dtype)", WIDE, "wide")
    return s.let(f"pk.matmul({x}, {wide}.T, dtype=pk.f32)", Range(-1e6, 1e6))


@production(1.0)
def gated_of_few_bits(s: FuzzScope) -> Var:
    """Two products of one array by weights of few bits."""
    group, kind = pick(s.draw, GROUPS), pick(s.draw, KINDS[:3])
    m, g, n = s.dim(), s.fresh_dim(), s.dim()
    x = s.input((m, g * group), hint="x")
    sides: list[Var] = []
    for hint in ("g", "u"):
        w, scale = s.input((n, g * group), kind, hint), s.input((n, g), hint="scale")
        wide = s.let(f"pk.cast({w}, {x}.dtype) * {_spread(scale, group, 1)} * 0.1", WIDE, "wide")
        sides.append(s.let(f"pk.matmul({x}, {wide}.T, dtype=pk.f32) * 0.01", Range(-1e4, 1e4)))
    return s.let(f"pk.silu({sides[0]}) * {sides[1]}", Range(-1e6, 1e6))


@production(1.0)
def quantised_rows(s: FuzzScope) -> Var:
    """Rows rounded to 8 bits by their largest element, multiplied as integers, scaled again; or packed in 4 bits."""
    x = s.number((2,), within=TAME)
    top = s.let(f"pk.max(pk.abs(pk.cast({x}, pk.f32)), axis=-1, keepdims=True) + 1e-3", Range(1e-3, 100.0), "top")
    if chance(s.draw, 30):
        q = f"pk.cast(pk.clip(pk.round(pk.cast({x}, pk.f32) / {top} * 7.0), -8.0, 7.0), pk.i8)"
        return s.let(f"pk.pack({q}, pk.{pick(s.draw, ('i4', 'u4'))})", Range(0.0, 255.0))
    q = s.let(f"pk.cast(pk.round(pk.cast({x}, pk.f32) / {top} * 127.0), pk.i8)", Range(-127.0, 127.0), "q")
    w, scale = s.input((x.shape[1], s.dim(x.shape)), "i8", "w"), s.scalar("scale")
    y = s.let(f"pk.matmul({q}, {w}, dtype=pk.i32)", Range(-1e6, 1e6))
    return s.let(f"pk.cast({y}, pk.f32) * ({top} * {scale})", Range(-1e8, 1e8))
