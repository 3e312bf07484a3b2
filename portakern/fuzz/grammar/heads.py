"""Heads: products whose columns are heads, one product for queries, keys and values, heads of queries that share keys."""

from __future__ import annotations

from portakern.fuzz.grammar.attention import attended
from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.products import asked, matrix, times
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production
from portakern.ir.size import Size

SEEN = ("", "pk.tri({z}.shape[-2], {z}.shape[-1])", "pk.iota({z}.shape, -1) < 5")
COUNTS = (2, 3, 4, 1)


def _projected(s: FuzzScope, x: Var, columns: Size, hint: str = "w") -> Var:
    rows = chance(s.draw, 30)
    w = s.input((columns, x.shape[-1]) if rows else (x.shape[-1], columns), hint=hint)
    right, dtype = f"{w}.T" if rows else str(w), asked(s, x)
    return s.let(f"pk.matmul({x}, {right}{dtype})" if dtype else f"{x} @ {right}", times(x, w))


def _lead(x: Var) -> str:
    """The dims of ``x`` but the last as text."""
    return ", ".join(f"{x}.shape[{i}]" for i in range(x.rank - 1))


def _small(s: FuzzScope, y: Var) -> Var:
    """What scores are made of."""
    return s.let(f"pk.tanh({y} * 0.05)", Range(-1.0, 1.0))


@production(1.5)
def heads(s: FuzzScope) -> Var:
    """A product in heads, first or not, each perhaps normalised, and perhaps joined again."""
    x = matrix(s, (2, 3))
    count = pick(s.draw, COUNTS)
    y = _projected(s, x, s.fresh_dim() * count)
    y = s.let(f"{y}.reshape({_lead(x)}, {count}, -1)", y.range)
    if chance(s.draw, 50):
        y = s.let(f"pk.swapaxes({y}, -2, -3)", y.range)
    if chance(s.draw, 50):
        y = s.let(f"{y} * pk.rsqrt(pk.mean({y} * {y}, axis=-1, keepdims=True) + 1e-2)", Range(-20.0, 20.0))
    if chance(s.draw, 30):
        return s.let(f"{y}.reshape({y}.shape[0], -1)", y.range)
    return y


THREE = {
    "slices": "{y}[..., {i} * ({n}) : {j} * ({n})].reshape({lead}, {h}, -1)",
    "split": "pk.split({y}, 3, -1)[{i}].reshape({lead}, {h}, -1)",
    "parts first": "{y}.reshape({lead}, 3, {h}, -1)[..., {i}, :, :]",
    "heads first": "{y}.reshape({lead}, {h}, 3, -1)[..., :, {i}, :]",
    "parts last": "{y}.reshape({lead}, {h}, -1, 3)[..., {i}]",
}
"""Queries, keys and values out of one array."""


@production(2.0)
def heads_of_one_product(s: FuzzScope) -> Var:
    """Queries, keys and values as parts of one product, attention of their heads, perhaps a product of what these give."""
    x = matrix(s, (2, 3))
    count, way = pick(s.draw, COUNTS), THREE[pick(s.draw, [*THREE])]
    y = _small(s, _projected(s, x, s.fresh_dim() * (3 * count)))
    n = f"{y}.shape[-1] // 3"
    q, k, v = (s.let(way.format(y=y, i=i, j=i + 1, n=n, h=count, lead=_lead(y)), y.range, "qkv"[i]) for i in range(3))
    b = "b" * (x.rank - 2)
    z = attended(s, q, k, v, f"{b}ihd,{b}jhd->{b}hij", pick(s.draw, SEEN))
    if chance(s.draw, 50):
        return z
    joined = s.let(f"{z}.reshape({_lead(x)}, -1)", z.range)
    return joined if chance(s.draw, 40) else _projected(s, joined, x.shape[-1], "o")


REPEATED = {
    "repeat": "pk.repeat({k}, {g}, -2)",
    "broadcast": "pk.broadcast_to({k}[..., None, :], ({lead}, {h}, {g}, {k}.shape[-1])).reshape({lead}, {h} * {g}, -1)",
    "interleave": "pk.interleave([{copies}], -2)",
}


@production(1.5)
def grouped_heads(s: FuzzScope) -> Var:
    """Heads of queries that share those of keys: these are repeated, or the queries are in groups."""
    rows, keys, h, d = s.dim(), s.fresh_dim(), s.fresh_dim(), s.dim()
    lead: tuple[Size, ...] = (s.dim(),) if chance(s.draw, 30) else ()
    b = "b" * len(lead)
    group = pick(s.draw, (2, 3, 4))
    k, v = s.input((*lead, keys, h, d), hint="k"), s.input((*lead, keys, h, d), hint="v")
    seen = pick(s.draw, SEEN[::2])
    if chance(s.draw, 40):
        q = s.input((*lead, rows, h, group, d), hint="q")
        return attended(s, q, k, v, f"{b}ihgd,{b}jhd->{b}hgij", seen)
    q = s.input((*lead, rows, h * group, d), hint="q")
    way = REPEATED[pick(s.draw, [*REPEATED])]
    front = ", ".join(f"{k}.shape[{i}]" for i in range(k.rank - 2))
    k, v = (s.let(way.format(k=x, g=group, h=f"{x}.shape[-2]", lead=front, copies=", ".join([str(x)] * group)), x.range)
            for x in (k, v))  # fmt: skip
    return attended(s, q, k, v, f"{b}ihd,{b}jhd->{b}hij", seen)


@production(1.0)
def heads_of_latents(s: FuzzScope) -> Var:
    """Keys and values of heads that are products of one narrow array."""
    x = matrix(s)
    count, d = pick(s.draw, COUNTS), s.fresh_dim()
    k, v = (_small(s, _projected(s, x, d * count, hint)) for hint in ("wk", "wv"))
    k, v = (s.let(f"{y}.reshape({x}.shape[0], {count}, -1)", y.range) for y in (k, v))
    q = s.input((s.dim(), count, d), hint="q")
    return attended(s, q, k, v, "ihd,jhd->hij")
