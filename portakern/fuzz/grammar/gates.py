"""Two products of one array that meet element by element, as gated layers have them, and what is nearly that."""

from __future__ import annotations

from portakern.fuzz.grammar.draws import chance, pick
from portakern.fuzz.grammar.products import TAME, asked, matrix, right_of, times
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import production

GATES = ("pk.silu({})", "pk.gelu({})", "pk.sigmoid({})", "pk.relu({})", "pk.tanh({})")
"""SwiGLU, GeGLU, GLU, ReGLU, and a gate of both signs."""

MEETINGS = ("{gate} * {value}", "{value} * {gate}", "pk.where({gate} > {value}, {gate}, {value})", "{value} + {gate}")


def _product(s: FuzzScope, a: Var, right: str, w: Var, dtype: str) -> Var:
    return s.let(f"pk.matmul({a}, {right}{dtype})" if dtype else f"{a} @ {right}", times(a, w))


def _met(s: FuzzScope, y: Var, z: Var) -> Var:
    gate = pick(s.draw, GATES).format(y)
    form = pick(s.draw, MEETINGS, (60, 20, 10, 10))
    held = Range(-max(y.range.reach, 1.0), max(y.range.reach, 1.0))
    return s.let(form.format(gate=gate, value=z), (held * z.range) | (held + z.range))


def _biased(s: FuzzScope, y: Var) -> Var:
    b = s.input(y.shape[-1:], hint="b")
    return s.let(f"{y} + {b}", y.range + b.range)


@production(2.5)
def gated(s: FuzzScope) -> Var:
    """Two products of one array, of weights as columns or as rows, with biases or none."""
    x = matrix(s, (2, 3))
    k, n = x.shape[-1], s.dim(x.shape)
    rows, biased, dtype = chance(s.draw, 30), chance(s.draw, 30), asked(s, x)
    sides: list[Var] = []
    for hint in ("g", "u"):
        w = s.input((n, k) if rows else (k, n), hint=hint)
        y = _product(s, x, f"{w}.T" if rows else str(w), w, dtype)
        sides.append(_biased(s, y) if biased else y)
    return _met(s, *(sides if chance(s.draw, 70) else sides[::-1]))


HALVES = {
    "slices": ("{y}[..., : {n}]", "{y}[..., {n} :]"),
    "split": ("pk.split({y}, 2, -1)[0]", "pk.split({y}, 2, -1)[1]"),
    "tail": ("{y}[..., : {n}]", "{y}[..., -({n}) :]"),
    "pairs": ("{y}[..., ::2]", "{y}[..., 1::2]"),
}
"""How one array becomes two."""


def halves_of(s: FuzzScope, y: Var, ways: tuple[str, ...] = (*HALVES,)) -> list[Var]:
    """The two halves along the last dim of ``y``, which has an even size by its declaration."""
    forms = HALVES[pick(s.draw, ways)]
    return [s.let(form.format(y=y, n=f"{y}.shape[-1] // 2"), y.range) for form in forms]


@production(2.0)
def gated_halves(s: FuzzScope) -> Var:
    """Gate and value as halves of one product, side by side or in turns."""
    x = matrix(s, (2, 3))
    k, n = x.shape[-1], s.fresh_dim() * 2
    rows = chance(s.draw, 30)
    w = s.input((n, k) if rows else (k, n), hint="w")
    y = _product(s, x, f"{w}.T" if rows else str(w), w, asked(s, x))
    y = _biased(s, y) if chance(s.draw, 30) else y
    first, second = halves_of(s, y)
    return _met(s, first, second) if chance(s.draw, 60) else _met(s, second, first)


@production(1.0)
def gated_parts_of_weights(s: FuzzScope) -> Var:
    """Of weights in one array: the parts are cut before they are multiplied, or are a dim of their own."""
    x = matrix(s, (2, 3))
    k = x.shape[-1]
    if chance(s.draw, 40):
        w = s.input((2, k, s.dim(x.shape)), hint="w")
        texts = [f"{w}[0]", f"{w}[1]"]
    else:
        w = s.input((k, s.fresh_dim() * 2), hint="w")
        forms = HALVES[pick(s.draw, [*HALVES])]
        texts = [form.format(y=w, n=f"{w}.shape[-1] // 2") for form in forms]
    dtype = asked(s, x)
    return _met(s, *(_product(s, x, text, w, dtype) for text in texts))


@production(1.0)
def products_by_one_matrix(s: FuzzScope) -> Var:
    """Two arrays by the same weights."""
    a = matrix(s)
    b = s.like(a.shape, within=TAME)
    w, dtype = right_of(s, a), asked(s, a)
    return _met(s, *(_product(s, x, str(w), w, dtype if x is a else asked(s, x)) for x in (a, b)))


@production(1.0)
def feed_forward(s: FuzzScope) -> Var:
    """A whole gated layer: the gated product by a third matrix, added to what came in or not."""
    x = matrix(s)
    n = s.dim(x.shape)
    g, u, d = s.input((x.shape[1], n), hint="g"), s.input((x.shape[1], n), hint="u"), s.input((n, x.shape[1]), hint="d")
    inner = s.let(f"pk.silu({x} @ {g}) * ({x} @ {u}) * 0.01", Range(-50.0, 50.0))
    y = s.let(f"{inner} @ {d}", (inner.range * d.range).summed())
    return y if chance(s.draw, 50) else s.let(f"{x} + {y}", x.range + y.range)


@production(1.0)
def nearly_gated(s: FuzzScope) -> Var:
    """Parts that meet across each other, a product of the other one, three products, or one that is reduced as well."""
    x = matrix(s)
    k = x.shape[1]
    kind = pick(s.draw, ("quarters", "one of the other", "three", "reduced too"))
    if kind == "quarters":
        w = s.input((k, s.fresh_dim() * 4), hint="w")
        y = _product(s, x, str(w), w, "")
        n = f"{y}.shape[1] // 4"
        return s.let(f"{y}[:, : {n}] + {y}[:, {n} : 2 * ({n})] * {y}[:, 3 * ({n}) :]", y.range + y.range * y.range)
    if kind == "one of the other":
        w, v = s.input((k, k), hint="w"), s.input((k, k), hint="v")
        y = s.let(f"pk.tanh({x} @ {w})", Range(-1.0, 1.0))
        return s.let(f"{y} * ({y} @ {v})", (y.range * v.range).summed())
    n = s.dim(x.shape)
    y, z = (_product(s, x, str(w), w, "") for w in (s.input((k, n), hint=hint) for hint in ("g", "u")))
    if kind == "reduced too":
        return s.let(f"pk.sigmoid({y}) * {z} - pk.max({y}, axis=-1, keepdims=True)", y.range - y.range)
    w = s.input((k, n), hint="w")
    return s.let(f"pk.sigmoid({y}) * {z} + {x} @ {w}", z.range + z.range + times(x, w))
