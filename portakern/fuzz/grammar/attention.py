"""Attention and what is nearly attention."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.normalising import over_sum, shifted_exp
from portakern.fuzz.grammar.ranges import UNIT, Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.sizes import Need
from portakern.fuzz.grammar.table import production
from portakern.ir.size import Size

SCORES = Range(-500.0, 500.0)
MIXED = Range(-5.0, 5.0)
OWN = {("", "", ""): 74, ("", "", "f16"): 4, ("f32", "f32", "bf16"): 5, ("f16", "f16", "f32"): 4, ("f32", "bf16", "bf16"): 4,
       ("bf16", "f16", ""): 3, ("f16", "f16", "bf16"): 2, ("f64", "f64", "f32"): 2, ("f32", "f32", "f64"): 2}  # fmt: skip
"""Dtypes of queries, keys and values beside the operator's, and how often."""


def _qkv(s: FuzzScope, same: bool = False) -> tuple[Var, Var, Var]:
    """Queries [.., S, D], keys [.., T, D], values [.., T, D]; ``same`` makes S and T one dim.

    Now and then one of them has a dtype of its own, as where a cache is kept narrower than what is computed.
    """
    lead: list[Size] = [s.dim() for _ in range(pick(s.draw, (0, 1, 2), (60, 30, 10)))]
    rows, inner = s.fresh_dim(), s.fresh_dim()
    keys = rows if same or chance(s.draw, 40) else s.fresh_dim()
    values = inner if chance(s.draw, 80) else s.fresh_dim()
    of_q, of_k, of_v = pick(s.draw, [*OWN], [*OWN.values()])
    q, k = s.input((*lead, rows, inner), of_q, "q"), s.input((*lead, keys, inner), of_k, "k")
    return q, k, s.input((*lead, keys, values), of_v, "v")


def _scores(s: FuzzScope, q: Var, k: Var) -> Var:
    dtype = ", dtype=pk.f32" if chance(s.draw, 70) else ""
    return s.let(f"pk.matmul({q}, pk.swapaxes({k}, -1, -2){dtype})", SCORES, "s")


def _mixed(s: FuzzScope, p: Var, v: Var) -> Var:
    """Values mixed by weights, which are rounded to the values' dtype as all do, or are not."""
    weights = f"pk.cast({p}, {v}.dtype)" if chance(s.draw, 70) else str(p)
    return s.let(f"{weights} @ {v}", MIXED)


def attended(s: FuzzScope, q: Var, k: Var, v: Var, letters: str, seen: str = "") -> Var:
    """Queries over keys and values whose dims have the ``letters`` of an einsum that makes scores, as ``ihd,jhd->hij``;
    ``seen`` says of scores ``{z}`` which of them count."""
    operands, scores = letters.split("->")
    queries, keys = operands.split(",")
    z = s.let(f'pk.einsum("{letters}", {q}, {k}, dtype=pk.f32) * 0.125', SCORES, "s")
    if seen:
        z = s.let(f'pk.where({seen.format(z=z)}, {z}, -float("inf"))', SCORES)
    p = s.let(f"pk.softmax({z})", UNIT, "p")
    weights = f"pk.cast({p}, {v}.dtype)" if chance(s.draw, 70) else str(p)
    return s.let(f'pk.einsum("{scores},{keys}->{queries}", {weights}, {v})', MIXED)


@production(3.0)
def attention(s: FuzzScope) -> Var:
    q, k, v = _qkv(s)
    z = s.let(f"{_scores(s, q, k)} * {pick(s.draw, ('0.125', '0.25', '1.0'))}", SCORES)
    return _mixed(s, s.let(f"pk.softmax({z})", UNIT, "p"), v)


@production(1.0)
def attention_of_bytes(s: FuzzScope) -> Var:
    """Queries and keys of 8 bits, with a scale for each row or none; heads are shorter than what one instruction takes, or as
    long."""
    rows, keys, inner, values = s.fresh_dim(), s.fresh_dim(), s.dim(), s.fresh_dim()
    q, k = s.input((rows, inner), "i8", "q"), s.input((keys, inner), "i8", "k")
    z = s.let(f"pk.cast(pk.matmul({q}, {k}.T, dtype=pk.i32), pk.f32) * 1e-3", SCORES, "s")
    if chance(s.draw, 40):
        z = s.let(f"{z} * {s.like((rows,), 'f32', 'scale')}[:, None]", SCORES)
    return _mixed(s, s.let(f"pk.softmax({z})", UNIT, "p"), s.input((keys, values), hint="v"))


BELOW = ("{j} <= {i} + {d}", "{j} < {i} + {more}", "{j} - {i} <= {d}", "{i} > {j} - {more}", "~({j} > {i} + {d})")
ABOVE = ("{i} <= {j} + {d}", "{i} - {j} < {more}", "{j} > {i} - {more}", "{j} >= {i} - {d}", "~({i} - {j} >= {more})")
"""Keys that a row sees, up to ``d`` above or below its own number: every row sees the key of its number."""


NEAR = {1: 40, 0: 20, 17: 15, 33: 5, 16: 5, 2: 5, 5: 5, 8: 5}
"""How far from a row's own number, and how often; those first where the last key that a block of rows sees is the first one of
a tile, whichever of both is the longer one."""


SEVERAL = 40
"""Rows that blocks of few rows share: each has a walk of its own over the keys."""


def _near(form: str, i: str, j: str, d: int) -> str:
    """A comparison as one writes it: nothing is added where it is 0."""
    return form.format(i=i, j=j, d=d, more=d + 1).replace(" + 0", "").replace(" - 0", "")


def _mask(s: FuzzScope, z: Var) -> str:
    i, j = f"pk.arange({z}.shape[-2])[:, None]", f"pk.arange({z}.shape[-1])[None, :]"
    d = pick(s.draw, [*NEAR], [*NEAR.values()])
    below, above = (_near(pick(s.draw, forms), i, j, d) for forms in (BELOW, ABOVE))
    kind = pick(s.draw, ("below", "above", "both", "tri", "input"), (52, 13, 20, 8, 7))
    if kind == "input":
        return str(s.input(z.shape[-2:], "bool", "mask"))
    tri = f"pk.tri({z}.shape[-2], {z}.shape[-1])"
    return {"below": below, "above": above, "both": f"({below}) & ({above})", "tri": tri}[kind]


@production(7.0)
def attention_masked(s: FuzzScope) -> Var:
    """Causal, in a window, or by a mask that is an input."""
    q, k, v = _qkv(s, same=True)
    z = _scores(s, q, k)
    mask = _mask(s, z)
    wide, alive = z.dtype == "f32", "arange" in mask  # where no row is masked as a whole
    filler = pick(s.draw, ("-1e4", '-float("inf")', "-1e30"), (15, 90 * alive, 15 * wide))
    needs = [Need(q.shape[-2], SEVERAL)] if chance(s.draw, 80) else []
    masked = s.let(f"pk.where({mask}, {z} * 0.125, {filler})", SCORES, needs=needs)
    if chance(s.draw, 20):
        return _mixed(s, over_sum(s, shifted_exp(s, masked, -1), -1), v)
    return _mixed(s, s.let(f"pk.softmax({masked})", UNIT, "p"), v)


@production(1.5)
def attention_of_lengths(s: FuzzScope) -> Var:
    """Keys up to a number that is read for every sequence, or between two of them."""
    q, k, v = _qkv(s)
    z = _scores(s, q, k)
    j = f"pk.iota({z}.shape, -1)"
    lengths = s.input(z.shape[:-2], "i32", "lengths", below=z.shape[-1])
    cut = f"pk.maximum({lengths}, 0)" + ("[..., None, None]" if z.rank > 2 else "")
    seen = pick(s.draw, (f"{j} <= {cut}", f"{j} - 3 < {cut}", f"({j} <= {cut}) & ({j} >= {cut} - 5)"))
    masked = s.let(f'pk.where({seen}, {z} * 0.125, -float("inf"))', SCORES)
    return _mixed(s, s.let(f"pk.softmax({masked})", UNIT, "p"), v)


@production(1.0)
def attention_biased(s: FuzzScope) -> Var:
    """With a bias added to, or a soft cap put on, the scores."""
    q, k, v = _qkv(s)
    z = _scores(s, q, k)
    bias = s.like(z.shape[-2:], hint="bias") if chance(s.draw, 60) else None
    z = s.let(f"{z} * 0.125 + {bias}" if bias else f"pk.tanh({z} * 0.02) * 50.0", SCORES)
    return _mixed(s, s.let(f"pk.softmax({z})", UNIT, "p"), v)


@production(1.5)
def attention_by_hand(s: FuzzScope) -> Var:
    """With the exponentials written out, divided before or after the second product; scaled by a run-time number or none."""
    q, k, v = _qkv(s)
    z = _scores(s, q, k)
    if chance(s.draw, 40):
        z = s.let(f"{z} * {s.scalar()}", SCORES)
    e = shifted_exp(s, z, -1)
    if chance(s.draw, 50):
        return _mixed(s, over_sum(s, e, -1), v)
    total = s.let(f"pk.sum({e}, axis=-1, keepdims=True)", Range(1.0, 300.0), "total")
    y = s.let(f"pk.cast({e}, {v}.dtype) @ {v}", Range(-1e3, 1e3))
    return s.let(f"{y} / {total}", MIXED)


@production(1.0)
def attention_near_miss(s: FuzzScope) -> Var:
    """Softmax along the wrong axis, no maximum, sigmoids in its place, or weights used a second time."""
    q, k, v = _qkv(s, same=True)
    z = s.let(f"{_scores(s, q, k)} * 0.125", SCORES)
    kind = pick(s.draw, ("columns", "sigmoid", "no max", "weights too", "squared"))
    if kind == "columns":
        return _mixed(s, s.let(f"pk.softmax({z}, axis=-2)", UNIT), v)
    if kind == "sigmoid":
        return s.let(f"pk.cast(pk.sigmoid({z}), {v}.dtype) @ {v}", Range(-300.0, 300.0))
    if kind == "no max":
        return _mixed(s, over_sum(s, s.let(f"pk.exp(pk.minimum({z}, 8.0))", UNIT, "e"), -1), v)
    p = s.let(f"pk.softmax({z})", UNIT, "p")
    y = _mixed(s, p, v)
    if kind == "squared":
        return s.let(f"{y} + pk.cast({p} * {p}, {v}.dtype) @ {v}", MIXED)
    total = s.let(f"pk.sum({p}, axis=-2)[..., None]", Range(0.0, 300.0))
    return s.let(f"{y} + {total}", Range(-300.0, 300.0))


@production(1.0)
def attention_of_mixed_heads(s: FuzzScope) -> Var:
    """Heads that talk: scores, or their weights, are mixed over heads."""
    heads, rows, keys, inner = s.fresh_dim(), s.fresh_dim(), s.fresh_dim(), s.fresh_dim()
    q, k = (s.input((heads, n, inner), hint=hint) for n, hint in ((rows, "q"), (keys, "k")))
    z = s.let(f'pk.einsum("hid,hjd->hij", {q}, {k}, dtype=pk.f32) * 0.125', SCORES, "s")
    to = heads if chance(s.draw, 70) else s.fresh_dim()
    mixed = f'pk.einsum("hij,hg->gij", {{}}, {s.input((heads, to), hint="w")})'
    kind = pick(s.draw, ("before", "after", "both") if to is heads else ("before",))
    if kind != "after":
        z = s.let(mixed.format(z), SCORES.summed())
    p = s.let(f"pk.softmax({z})", UNIT, "p")
    if kind != "before":
        p = s.let(mixed.format(p), Range(-10.0, 10.0))
    v = s.input((to, keys, inner), hint="v")
    return s.let(f'pk.einsum("hij,hjd->{pick(s.draw, ("hid", "ihd"))}", pk.cast({p}, {v}.dtype), {v})', Range(-800.0, 800.0))


@production(0.7)
def attention_shared(s: FuzzScope) -> Var:
    """Queries, keys and values out of one array."""
    x = s.number((2, 3), within=Range(-10.0, 10.0))
    z = s.let(f"pk.matmul({x}, pk.swapaxes({x}, -1, -2), dtype=pk.f32) * 0.1", SCORES)
    return _mixed(s, s.let(f"pk.softmax({z})", UNIT, "p"), x)


@production(1.0)
def linear_attention(s: FuzzScope) -> Var:
    """Keys and values multiplied first, in f32 or not."""
    q, k, v = _qkv(s)
    dtype = ", dtype=pk.f32" if chance(s.draw, 60) else ""
    kv = s.let(f"pk.matmul(pk.swapaxes({k}, -1, -2), {v}{dtype})", Range(-800.0, 800.0), "kv")
    y = s.let(f"{q} @ ({kv} * 0.1)", Range(-1e4, 1e4))
    if chance(s.draw, 60):
        return y
    z = s.let(f"pk.sum({k}, axis=-2)[..., None]", Range(-160.0, 160.0), "z")
    return s.let(f"{y} / (pk.abs({q} @ {z}) + 1.0)", Range(-1e4, 1e4))
