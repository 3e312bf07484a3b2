"""Rotations of pairs of features (RoPE), as models write them: of halves, of neighbours, behind projections, before scores."""

from __future__ import annotations

from portakern.fuzz.grammar.attention import attended
from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.gates import halves_of
from portakern.fuzz.grammar.products import asked, matrix, times
from portakern.fuzz.grammar.ranges import NORMAL, UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production
from portakern.ir.size import Sym

TURNED = Range(-200.0, 200.0)
SMALL = Range(-20.0, 20.0)
"""What is turned."""

WIDE = 64
"""Columns of a half from which on a rotation may lie in the kernel of its product."""


def _paired(s: FuzzScope) -> Var:
    """An array whose last dim is even by its declaration, with a dim before it for positions."""
    def fits(v: Var) -> bool:
        even = v.rank > 1 and isinstance(v.shape[-1], Sym) and v.shape[-1].divisibility % 2 == 0
        return v.is_number and even and v.rank <= 4 and v.range.within(SMALL)

    return s.operand(fits, lambda: s.input((*s.shape((2, 1, 3), (50, 20, 30)), s.fresh_dim() * 2)))


def _turns(s: FuzzScope, x: Var, rows: int, whole: bool) -> tuple[str, str]:
    """Cosines and sines for each place along dim ``rows`` of ``x`` and each feature, or each half of them: arrays, of positions
    that are counted, or rows of a table by numbers that are given."""
    count, width = x.shape[rows], x.shape[-1] if whole else x.shape[-1] // 2
    kind = pick(s.draw, ("arrays", "counted", "table"), (50, 30, 20))
    if kind == "arrays":
        return str(s.input((count, width), hint="cos")), str(s.input((count, width), hint="sin"))
    if kind == "table":
        longest = s.fresh_dim()
        at = s.input((count,), pick(s.draw, ("i32", "i64")), "position", below=longest)
        cos, sin = (s.input((longest, width), hint=hint) for hint in ("cos", "sin"))
        return f"pk.take({cos}, {at})", f"pk.take({sin}, {at})"
    places, features = f"{x}.shape[{rows}]", f"{x}.shape[-1]" if whole else f"{x}.shape[-1] // 2"
    steps = f"pk.exp(pk.arange({features}, pk.f32) * -0.1)"
    angle = s.let(f"pk.arange({places}, pk.f32)[:, None] * {steps}", Range(0.0, 1e3), "angle")
    return str(s.let(f"pk.cos({angle})", UNIT, "cos")), str(s.let(f"pk.sin({angle})", UNIT, "sin"))


def _halved(s: FuzzScope, x: Var, cos: str, sin: str) -> Var:
    """Times the cosines, and with its halves changed over and one negated times the sines."""
    low, high = halves_of(s, x, ("slices", "tail", "split"))
    turned = pick(s.draw, (f"pk.concat([-{high}, {low}], -1)", f"pk.concat([{high}, -{low}], -1)"), (75, 25))
    return s.let(f"{x} * {cos} + {turned} * {sin}", TURNED)


def _apart(s: FuzzScope, x: Var, cos: str, sin: str) -> Var:
    """Both halves finished by themselves, then joined."""
    low, high = halves_of(s, x, ("slices", "tail", "split"))
    parts = f"{low} * {cos} - {high} * {sin}", f"{high} * {cos} + {low} * {sin}"
    return s.let(f"pk.concat([{', '.join(parts)}], -1)", TURNED)


def _rotated(s: FuzzScope, x: Var, rows: int) -> Var:
    """``x`` turned by positions along dim ``rows``."""
    whole = chance(s.draw, 65)
    between = "None, " * (x.rank - 2 - rows)
    cos, sin = (f"{t}[:, {between}:]" if between else t for t in _turns(s, x, rows, whole))
    return (_halved if whole else _apart)(s, x, cos, sin)


@production(1.5)
def rotated(s: FuzzScope) -> Var:
    """The halves of the last dim against each other."""
    x = _paired(s)
    return _rotated(s, x, pick(s.draw, range(x.rank - 1)))


@production(1.5)
def rotated_neighbours(s: FuzzScope) -> Var:
    """Pairs that lie side by side."""
    x = _paired(s)
    cos, sin = _turns(s, x, x.rank - 2, whole=False)
    if chance(s.draw, 65):
        a, b = f"{x}[..., ::2]", f"{x}[..., 1::2]"
    else:
        pairs = s.let(f"{x}.reshape({', '.join(f'{x}.shape[{i}]' for i in range(x.rank - 1))}, -1, 2)", x.range)
        a, b = f"{pairs}[..., 0]", f"{pairs}[..., 1]"
    a, b = s.let(a, x.range), s.let(b, x.range)
    parts = f"[{a} * {cos} - {b} * {sin}, {a} * {sin} + {b} * {cos}]"
    return s.let(pick(s.draw, (f"pk.interleave({parts}, -1)", f"pk.stack({parts}, -1).reshape({x}.shape)")), TURNED)


@production(1.5)
def rotated_projection(s: FuzzScope) -> Var:
    """Heads of a product, turned: of wide heads in the kernel of the product."""
    x = matrix(s)
    d, count = s.fresh_dim(), pick(s.draw, (2, 1, 3))
    needs = [Need(d, WIDE)] if chance(s.draw, 50) else []
    rows = chance(s.draw, 40)
    w = s.input((d * 2 * count, x.shape[1]) if rows else (x.shape[1], d * 2 * count), hint="w")
    right, dtype = f"{w}.T" if rows else str(w), asked(s, x)
    y = s.let(f"pk.matmul({x}, {right}{dtype})" if dtype else f"{x} @ {right}", times(x, w), needs=needs)
    heads = s.let(f"{y}.reshape({x}.shape[0], {count}, -1)", y.range)
    first = chance(s.draw, 30)
    heads = s.let(f"pk.transpose({heads}, (1, 0, 2))", y.range) if first else heads
    return _rotated(s, heads, 1 if first else 0)


@production(1.0)
def rotated_part(s: FuzzScope) -> Var:
    """The first features alone are turned; the others stay as they are."""
    d = s.fresh_dim()
    x = s.input((*s.shape((1, 2)), d * 4))
    n = f"{x}.shape[-1] // 2"
    y = _rotated(s, s.let(f"{x}[..., : {n}]", x.range), x.rank - 2)
    return s.let(f"pk.concat([{y}, {x}[..., {n} :]], -1)", TURNED)


@production(1.0)
def rotated_attention(s: FuzzScope) -> Var:
    """Queries and keys turned before their scores."""
    h, t, d = s.dim(), s.fresh_dim(), s.fresh_dim() * 2
    q, k, v = (s.input((h, t, d), hint=hint) for hint in "qkv")
    cos, sin = (s.input((t, d), hint=hint) for hint in ("cos", "sin"))
    q, k = (s.let(f"{y} * 0.1", NORMAL) for y in (_halved(s, x, str(cos), str(sin)) for x in (q, k)))
    return attended(s, q, k, v, "hid,hjd->hij", pick(s.draw, ("", "pk.tri({z}.shape[-2], {z}.shape[-1])")))
