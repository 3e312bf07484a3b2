"""Sums of products: any pairing of axes, arrays with themselves, what comes before and after, several in a row."""

from __future__ import annotations

from functools import partial

from portakern.fuzz.grammar.draws import chance, order, pick
from portakern.fuzz.grammar.ranges import Range
from portakern.fuzz.grammar.scope import FuzzScope, Var
from portakern.fuzz.grammar.table import add, production
from portakern.ir.size import Size

TAME = Range(-100.0, 100.0)
"""What is multiplied: sums of products of it stay within f16 for most sizes."""
LETTERS = "abcdefghijklmnop"
PLACES = "mnkbdefghlpq"


def times(a: Var, b: Var) -> Range:
    """The range of sums of products."""
    return (a.range * b.range).summed()


def asked(s: FuzzScope, a: Var) -> str:
    """The dtype asked of a product of narrow operands: often f32."""
    return ", dtype=pk.f32" if a.dtype in ("bf16", "f16") and chance(s.draw, 50) else ""


def matrix(s: FuzzScope, ranks: tuple[int, ...] = (2,)) -> Var:
    return s.number(ranks, within=TAME)


def is_matrix(v: Var) -> bool:
    return v.is_number and v.rank == 2 and v.range.within(TAME)


def right_of(s: FuzzScope, a: Var, columns: Size | None = None, hint: str = "w") -> Var:
    """A matrix that ``a`` may be multiplied with: an earlier one that fits, or a fresh one, mostly of the operator's dtype."""

    def fits(v: Var) -> bool:
        return is_matrix(v) and v.shape[0] == a.shape[-1] and columns in (None, v.shape[1])

    def fresh() -> Var:
        own = pick(s.draw, ("", "bf16", "f32", "f16"), (90, 5, 3, 2))
        return s.input((a.shape[-1], s.dim(a.shape) if columns is None else columns), own, hint)

    return s.operand(fits, fresh)


NEVER_ZERO = ("1.0 - {0}", "pk.sigmoid({0})", "{0} + 2.0", "pk.exp(-pk.abs({0}))", "pk.cast({0} <= 0.0, {0}.dtype)")
"""What is made of 0 by these is not 0: so what lies past a ragged end must be cleared."""


@production(6.0)
def prologues(s: FuzzScope) -> Var:
    """A product of what is computed from both arrays."""
    a = matrix(s, (2, 3))
    b = right_of(s, a)
    left, right = (pick(s.draw, NEVER_ZERO).format(x) for x in (a, b))
    near = Range(-2.0, 2.0)
    return s.let(f"({left}) @ ({right})", ((a.range + near) * (b.range + near)).summed())


def multiply(s: FuzzScope, a: Var, b: Var, left: str = "", right: str = "") -> Var:
    left, right = left or str(a), right or str(b)
    dtype = asked(s, a)
    return s.let(f"pk.matmul({left}, {right}{dtype})" if dtype else f"{left} @ {right}", times(a, b))


# ---- two arrays ---------------------------------------------------------------------------------------------------------


@production(5.0)
def matmul(s: FuzzScope) -> Var:
    a = matrix(s, (2, 3))
    return multiply(s, a, right_of(s, a))


@production(2.0)
def matmul_transposed(s: FuzzScope) -> Var:
    """With the right, the left, or both operands transposed."""
    a = matrix(s)
    kind = pick(s.draw, ("right", "left", "both"))
    k = a.shape[1] if kind == "right" else a.shape[0]

    def fits(v: Var) -> bool:
        return is_matrix(v) and v.shape[0 if kind == "left" else 1] == k

    b = s.operand(fits, lambda: s.input((k, s.dim((k,))) if kind == "left" else (s.dim((k,)), k)))
    left, right = f"{a}.T" if kind != "right" else str(a), f"{b}.T" if kind != "left" else str(b)
    return multiply(s, a, b, left, right)


@production(2.5)
def matmul_batched(s: FuzzScope) -> Var:
    """Of arrays with leading dims, that may be 1 or lacking in one of them."""
    a = s.number((3, 4), within=TAME)
    lead = a.shape[:-2]
    kind = pick(s.draw, ("same", "ones", "fewer"))
    shape = (*(lead if kind == "same" else (1,) * len(lead) if kind == "ones" else lead[1:]), a.shape[-1], s.dim(a.shape))
    return multiply(s, a, s.input(shape))


@production(1.5)
def matrix_vector(s: FuzzScope) -> Var:
    a = matrix(s, (2, 3))
    if chance(s.draw, 40):
        v = s.like(a.shape[-2:-1], within=TAME)
        return s.let(f"{v} @ {a}", times(v, a))
    v = s.like(a.shape[-1:], within=TAME)
    return s.let(f"{a} @ {v}", times(a, v))


@production(0.7)
def dot(s: FuzzScope) -> Var:
    a = matrix(s, (1,))
    b = s.like(a.shape, within=TAME)
    return s.let(f"pk.dot({a}, {b})", times(a, b))


def _self(form: str, s: FuzzScope) -> Var:
    x = matrix(s)
    return s.let(form.format(x), times(x, x))


for _name, _form in (("gram_rows", "{0} @ {0}.T"), ("gram_columns", "{0}.T @ {0}")):
    add(_name, 1.5, partial(_self, _form))


@production(1.5)
def matrix_squared(s: FuzzScope) -> Var:
    def fits(v: Var) -> bool:
        return is_matrix(v) and v.shape[0] == v.shape[1]

    d = s.dim()
    x = s.operand(fits, lambda: s.input((d, d)))
    return s.let(f"{x} @ {x}", times(x, x))


# ---- einsum -------------------------------------------------------------------------------------------------------------


def _paired(s: FuzzScope, a: Var, b: Var) -> tuple[str, str, str]:
    """Letters of ``a`` and of ``b``, and those of the result in some order: equal dims are paired up or left alone."""
    left = PLACES[: a.rank]
    unused = iter(PLACES[a.rank :])
    right, gone = "", ""
    for size in b.shape:
        partners = [c for c, d in zip(left, a.shape, strict=True) if d == size and c not in right]
        if not partners or chance(s.draw, 15):
            right += next(unused)
            continue
        right += pick(s.draw, partners)
        if pick(s.draw, (True, False), (65, 35)):
            gone += right[-1]
    if chance(s.draw, 5):
        gone += pick(s.draw, left)
    kept = [c for c in dict.fromkeys(left + right) if c not in gone]
    return left, right, "".join(order(s.draw, kept) if chance(s.draw, 40) else kept)


def _partner(s: FuzzScope, a: Var) -> Var:
    """The other operand of an einsum: with some dims of ``a`` in any order, and some of its own."""

    def fits(v: Var) -> bool:
        return v.is_number and 0 < v.rank <= 4 and v.range.within(TAME) and any(d in a.shape for d in v.shape)

    def fresh() -> Var:
        shared = [d for d in order(s.draw, a.shape[::-1]) if chance(s.draw, 70)] or [a.shape[-1]]
        own = [s.dim((*a.shape, *shared)) for _ in range(pick(s.draw, (1, 0, 2), (70, 10, 20)))]
        return s.input(order(s.draw, [*shared, *own])[:4])

    return s.operand(fits, fresh)


@production(5.0)
def einsum(s: FuzzScope) -> Var:
    a = matrix(s, (2, 3, 4))
    b = _partner(s, a)
    left, right, result = _paired(s, a, b)
    if chance(s.draw, 20):
        x, y = (pick(s.draw, NEVER_ZERO).format(x) for x in (a, b))
        return s.let(f'pk.einsum("{left},{right}->{result}", {x}, {y})', times(a, b))
    return s.let(f'pk.einsum("{left},{right}->{result}", {a}, {b}{asked(s, a)})', times(a, b))


@production(1.0)
def einsum_three(s: FuzzScope) -> Var:
    a = matrix(s, (2, 3))
    b = s.input((a.shape[-1], s.dim(a.shape)))
    c = s.input((b.shape[-1], s.dim((*a.shape, *b.shape))))
    lead = "b" * (a.rank - 2)
    result = "".join(order(s.draw, [*lead, "m", "n"]))
    return s.let(f'pk.einsum("{lead}mk,kl,ln->{result}", {a}, {b}, {c})', times(a, b) * Range(-5.0, 5.0))


@production(1.5)
def several_contracted(s: FuzzScope) -> Var:
    """Over two axes that lie beside each other in one operand and not in the other (an output projection of heads)."""
    a = s.number((4, 3), within=TAME)
    first, second = a.shape[-3], a.shape[-1]
    kind = pick(s.draw, ("merged", "swapped"))
    w = s.input((*((first, second) if kind == "merged" else (second, first)), s.dim(a.shape)))
    lead, pair = "b" * (a.rank - 3), "hd" if kind == "merged" else "dh"
    result = "".join(order(s.draw, [*lead, "s", "e"]))
    return s.let(f'pk.einsum("{lead}hsd,{pair}e->{result}", {a}, {w}{asked(s, a)})', times(a, w))


@production(2.0)
def products_in_a_row(s: FuzzScope) -> Var:
    """A short product, and one that sums some of its axes and may share others: few of these pairs multiply matrices alone."""
    lead, left, right = (must + may * chance(s.draw, 40) for must, may in (("", "b"), ("i", "c"), ("j", "d")))
    sizes: dict[str, Size] = {x: s.fresh_dim() for x in lead + left + right} | {"k": pick(s.draw, (3, 2, 5, 8))}
    a, b = ("".join(order(s.draw, lead + x + "k")) for x in (left, right))
    x, y = (s.input(tuple(sizes[c] for c in letters)) for letters in (a, b))
    middle = "".join(order(s.draw, lead + left + right))
    z = s.let(f'pk.einsum("{a},{b}->{middle}", {x}, {y})', times(x, y))
    z = s.let(pick(s.draw, ("pk.tanh({})", "{} * 0.1", "pk.exp(-pk.abs({}))")).format(z), z.range | Range(0.0, 1.0))
    gone = [c for c in middle if chance(s.draw, 40)] or [middle[-1]]
    both = [c for c in middle if c not in gone and chance(s.draw, 20)]
    w = "".join(order(s.draw, [*gone, *both, "z"]))
    sizes["z"] = s.dim(z.shape)
    v = s.input(tuple(sizes[c] for c in w))
    result = "".join(order(s.draw, [*(c for c in middle if c not in gone), "z"]))
    return s.let(f'pk.einsum("{middle},{w}->{result}", {z}, {v})', times(z, v))


@production(0.7)
def einsum_outer(s: FuzzScope) -> Var:
    """Nothing summed."""
    a, b = matrix(s, (1, 2)), matrix(s, (1,))
    left, right = "mn"[: a.rank], "k"
    return s.let(f'pk.einsum("{left},{right}->{"".join(order(s.draw, left + right))}", {a}, {b})', a.range * b.range)


# ---- before and after ---------------------------------------------------------------------------------------------------

ACTIVATIONS = ("pk.relu({})", "pk.silu({})", "pk.gelu({})", "pk.tanh({})", "pk.sigmoid({})", 'pk.gelu({}, "tanh")')


@production(2.0)
def linear(s: FuzzScope) -> Var:
    """A product with a bias and an activation."""
    a = matrix(s, (2, 3))
    y = multiply(s, a, right_of(s, a))
    z = s.let(f"{y} + {s.like(y.shape[-1:], hint='bias')}", y.range + Range(-5.0, 5.0))
    return s.let(pick(s.draw, ACTIVATIONS).format(z), z.range | Range(0.0, 1.0))


@production(1.5)
def residual(s: FuzzScope) -> Var:
    """A product added to an array."""
    a = matrix(s, (2, 3))
    y = multiply(s, a, right_of(s, a))
    r = s.like(y.shape, within=TAME, hint="r")
    return s.let(pick(s.draw, ("{1} + {0}", "{0} + {1}", "{0} - {1}")).format(y, r), y.range + r.range | y.range - r.range)


@production(1.0)
def prologue(s: FuzzScope) -> Var:
    """A product of something computed from an array, element by element or row by row."""
    a = matrix(s)
    norm = "{0} * pk.rsqrt(pk.mean({0} * {0}, axis=-1, keepdims=True) + 1e-5)"
    forms = ("pk.relu({0})", "{0} * {0}", "pk.softmax({0})", norm, "pk.tanh({0}) + 1.0", "pk.cast({0} > 0.0, {0}.dtype)")
    form = pick(s.draw, forms)
    y = s.let(form.format(a), Range(-30.0, 30.0) if "{0} * {0}" in form else Range(-5.0, 5.0))
    return multiply(s, y, right_of(s, y))


@production(1.5)
def sum_of_products(s: FuzzScope) -> Var:
    a = matrix(s)
    b = right_of(s, a)
    c = s.operand(lambda v: is_matrix(v) and v.shape[0] == a.shape[0], lambda: s.input((a.shape[0], s.dim(a.shape))))
    d = right_of(s, c, b.shape[1])
    y, z = multiply(s, a, b), multiply(s, c, d)
    return s.let(f"{y} + {z}", y.range + z.range)


@production(1.5)
def product_of_products(s: FuzzScope) -> Var:
    """Two or three layers."""
    x = matrix(s)
    for _ in range(pick(s.draw, (2, 3))):
        y = multiply(s, x, right_of(s, x))
        x = s.let(pick(s.draw, ("pk.relu({})", "{} * 0.1", "pk.tanh({})")).format(y), Range(-5.0, 5.0))
    return x


@production(1.0)
def both_sides(s: FuzzScope) -> Var:
    """x w x^T and the like."""
    x = matrix(s)
    w = s.input((x.shape[1], x.shape[1]), hint="w")
    y = multiply(s, x, w)
    return s.let(f"pk.matmul({y} * 0.1, {x}.T)", times(y, x))


@production(1.0)
def newton_schulz(s: FuzzScope) -> Var:
    """A step of the iteration that orthogonalises a matrix, as Muon does."""
    x = to_unit(s, matrix(s))
    a = s.let(f"{x} @ {x}.T", Range(-1.0, 1.0))
    b = s.let(f"-4.775 * {a} + 2.0315 * {a} @ {a}", Range(-7.0, 7.0))
    return s.let(f"3.4445 * {x} + {b} @ {x}", Range(-50.0, 50.0))


def to_unit(s: FuzzScope, x: Var) -> Var:
    return s.let(f"{x} / (pk.sqrt(pk.sum({x} * {x})) + 1e-3)", Range(-1.0, 1.0))


@production(1.0)
def product_reduced(s: FuzzScope) -> Var:
    """A product that only its rows' or columns' statistics are kept of."""
    a = matrix(s)
    y = multiply(s, a, right_of(s, a))
    fn = pick(s.draw, ("max", "sum", "mean", "min", "logsumexp"))
    return s.let(f"pk.{fn}({y}, axis={s.axis(y)})", y.range.summed())


@production(1.5)
def batches_reduced(s: FuzzScope) -> Var:
    """Sums, or other reductions, over the batches of products that are computed on first."""
    g, m, k, n = s.dim(), s.dim(), s.dim(), s.dim()
    left, right = pick(s.draw, (("gmk", "gnk"), ("mgk", "gkn"), ("mkg", "gkn")))
    sizes = dict(zip("gmkn", (g, m, k, n), strict=True))
    a, b = (s.input(tuple(sizes[x] for x in letters)) for letters in (left, right))
    y = s.let(f'pk.einsum("{left},{right}->gmn", {a}, {b}{asked(s, a)})', times(a, b))
    z = s.let(pick(s.draw, (*ACTIVATIONS, "pk.abs({})", "{0} * {0}")).format(y), y.range * y.range | Range(0.0, 1.0))
    return s.let(f"pk.{pick(s.draw, ('sum', 'max', 'mean'), (80, 10, 10))}({z}, axis=0)", z.range.summed())


@production(1.0)
def qkv_split(s: FuzzScope) -> Var:
    """One product whose columns are several results."""
    d = s.fresh_dim()
    x = matrix(s)
    y = multiply(s, x, s.input((x.shape[1], d * pick(s.draw, (2, 3))), hint="w"))
    n = y.shape[1].divisibility  # pyright: ignore[reportAttributeAccessIssue]
    parts = [s.let(f"{y}[:, {i} * {y}.shape[1] // {n} : {i + 1} * {y}.shape[1] // {n}]", y.range) for i in range(n)]
    return s.let(f"{parts[0]} * {parts[-1]}", y.range * y.range)


# ---- narrow operands ----------------------------------------------------------------------------------------------------


@production(1.5)
def bytes_product(s: FuzzScope) -> Var:
    """A product of integers of 8 bits, scaled."""
    m, k, n = s.dim(), s.dim(), s.dim()
    kind = pick(s.draw, ("i8", "u8"), (80, 20))
    a, b = s.input((m, k), kind), s.input((k, n), kind)
    y = s.let(f"pk.matmul({a}, {b}, dtype=pk.i32)", Range(-1e6, 1e6))
    if chance(s.draw, 40):
        return y
    scale = s.like((n,), "f32", "scale")
    return s.let(f"pk.cast({y}, pk.f32) * {scale}", Range(-5e6, 5e6))


@production(0.25)
def f8_product(s: FuzzScope) -> Var:
    """A product of 8-bit floats, scaled."""
    kind = pick(s.draw, ("f8e4m3", "f8e5m2"))
    a = s.input(s.shape((2,)), kind)
    b = s.input((a.shape[1], s.dim(a.shape)), kind)
    y = s.let(f"pk.matmul({a}, {b}, dtype=pk.f32)", times(a, b))
    return y if chance(s.draw, 50) else s.let(f"{y} * {s.scalar('scale')}", times(a, b) * Range(-5.0, 5.0))


@production(1.5)
def dequantised_product(s: FuzzScope) -> Var:
    """Weights of 8 bits with a scale for every group of rows."""
    x = matrix(s)
    group = pick(s.draw, (2, 4, 8, 16, 32))
    g, n = s.fresh_dim(), s.dim((x.shape[0],))
    x = s.input((x.shape[0], g * group))
    q = s.input((g, group, n), "i8", "q")
    scale = s.input((g, n), "f32" if chance(s.draw, 60) else "", "scale")
    if chance(s.draw, 50):
        w = s.let(f"pk.cast({q}, {scale}.dtype) * {scale}[:, None, :]", Range(-500.0, 500.0), "w")
        rows = s.let(f"pk.cast({w}.reshape(-1, {w}.shape[2]), {x}.dtype)", w.range, "w")
        return s.let(f"pk.matmul({x}, {rows}, dtype=pk.f32) * 0.01", Range(-1e4, 1e4))
    parts = s.let(f"{x}.reshape({x}.shape[0], -1, {group})", x.range)
    y = s.let(f'pk.einsum("mgk,gkn->mgn", {parts}, pk.cast({q}, {x}.dtype), dtype=pk.f32)', Range(-2e4, 2e4))
    return s.let(f"pk.sum({y} * {scale}, axis=1)", Range(-1e6, 1e6))


@production(1.5)
def packed_product(s: FuzzScope) -> Var:
    """Weights of 4 bits, two to a byte, with a scale and perhaps a zero point for every group of columns."""
    group, kind = pick(s.draw, (2, 4, 8, 16, 32, 48)), pick(s.draw, ("i4", "u4"))
    m, g, n = s.dim(), s.fresh_dim(), s.dim()
    x = s.input((m, g * group))
    w = s.let(f"pk.unpack({s.input((n, g * (group // 2)), 'u8', 'q')}, pk.{kind})", Range(-8.0, 15.0), "w")
    scale = s.input((n, g), "f32" if chance(s.draw, 60) else "", "scale")
    whole = f"pk.cast({w}, pk.f32)"
    if chance(s.draw, 50):
        zero = s.input((n, g), "i8", "zero")
        whole = f"({whole} - pk.cast(pk.repeat({zero}, {group}, axis=1), pk.f32))"
    wide = s.let(f"{whole} * pk.cast(pk.repeat({scale}, {group}, axis=1), pk.f32)", Range(-1e3, 1e3), "w")
    y = s.let(f"pk.matmul({x}, pk.transpose(pk.cast({wide}, {x}.dtype)), dtype=pk.f32)", Range(-1e6, 1e6))
    return y if chance(s.draw, 50) else s.let(f"pk.tanh({y} * 0.01)", Range(-1.0, 1.0))


@production(1.0)
def scaled_sums(s: FuzzScope) -> Var:
    """The product of each block along k has scales of its own, and these are summed."""
    block, kind = pick(s.draw, (2, 8, 16, 32)), pick(s.draw, ("i8", "f32", "bf16"))
    m, g, n = s.dim(), s.fresh_dim(), s.dim()
    a, b = s.input((m, g, block), kind), s.input((n, g, block), kind)
    y = s.let(f'pk.einsum("mgk,ngk->gmn", {a}, {b}, dtype=pk.{"i32" if kind == "i8" else "f32"})', Range(-1e6, 1e6))
    scale = s.input((n, g), "f32", "scale")
    scaled = s.let(f"pk.cast({y}, pk.f32) * pk.transpose({scale})[:, None, :]", Range(-5e6, 5e6))
    return s.let(f"pk.sum({scaled}, axis=0) * 0.01", Range(-1e6, 1e6))
