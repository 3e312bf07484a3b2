"""How programs are cut into stages: what crosses is stored once, and nothing dear is computed twice."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

import portakern as pk
from portakern.errors import LoweringError, ScheduleError
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule, override
from portakern.ir.tile import Dot, Kernel
from portakern.lower import lower
from portakern.registry import registry
from portakern.spec.operator import Operator
from portakern.tuning.space import nest_space
from tests.lower.test_lowering import chooser, compare

pytestmark = pytest.mark.quick

T = pk.Tensor
DIMS = {"M": 33, "N": 40, "K": 24, "S": 20, "D": 16}


def layers(n: int) -> dict[str, Operator]:
    """Operators of ``n`` layers of each kind."""

    @pk.operator
    def plain(x: T["M", "N"], w: T["N", "N"]):
        for _ in range(n):
            x = pk.gelu(x @ w)
        return x

    @pk.operator
    def bias(x: T["M", "N"], w: T["N", "N"], b: T["N"]):
        for _ in range(n):
            x = pk.relu(x @ w + b)
        return x

    @pk.operator
    def residual(x: T["M", "N"], w: T["N", "N"]):
        for _ in range(n):
            x = x + pk.gelu(x @ w)
        return x

    @pk.operator
    def normed(x: T["M", "N"], w: T["N", "N"], g: T["N"]):
        for _ in range(n):
            h = x * pk.rsqrt(pk.mean(x * x, -1, keepdims=True) + 1e-6) * g
            x = x + pk.tanh(h @ w)
        return x

    @pk.operator
    def dense(x: T["M", "N"], w: T["N", "N"]):
        outs = [x]
        for _ in range(n):
            total = outs[0]
            for y in outs[1:]:
                total = total + y
            outs.append(pk.tanh(total @ w))
        return outs[-1]

    @pk.operator
    def squared(x: T["N", "N"]):
        for _ in range(n):
            x = pk.tanh(x @ x)
        return x

    @pk.operator
    def gated(x: T["M", "N"], w: T["N", "K"], v: T["N", "K"], o: T["K", "N"]):
        for _ in range(n):
            x = x + (pk.silu(x @ w) * (x @ v)) @ o
        return x

    @pk.operator
    def newton_schulz(x: T["N", "N"]):
        for _ in range(n):
            a = x @ x.T
            x = 1.5 * x - 0.5 * (a @ x) * 0.01
        return x

    @pk.operator
    def transformer(x: T["S", "D"], q: T["D", "D"], k: T["D", "D"], v: T["D", "D"], o: T["D", "D"], w: T["D", "2*D"],
                    u: T["2*D", "D"]):  # fmt: skip
        for _ in range(n):
            h = x * pk.rsqrt(pk.mean(x * x, -1, keepdims=True) + 1e-6)
            x = x + (pk.softmax((h @ q) @ (h @ k).T * 0.25) @ (h @ v)) @ o
            x = x + pk.gelu(x @ w) @ u
        return x

    mine = locals()
    return {name: op for name, op in mine.items() if isinstance(op, Operator)}


# Of each layer: products, and kernels of other families.
KERNELS = {
    "plain": {"contraction": 1}, "bias": {"contraction": 1}, "residual": {"contraction": 1}, "dense": {"contraction": 1},
    "squared": {"contraction": 1}, "normed": {"contraction": 1, "rows": 1}, "gated": {"contraction": 2},
    "newton_schulz": {"contraction": 2}, "transformer": {"contraction": 6, "attention": 1, "rows": 1},
}  # fmt: skip


def lowered(op: Operator, **dims: int) -> Program:
    return lower(op.program({d: n for d, n in (dims or DIMS).items() if d in op.dims}), chooser())


def families(program: Program) -> Counter[str]:
    return Counter(k.family for k in program.kernels)


def dots(kernel: Kernel) -> int:
    return sum(isinstance(op, Dot) for op in kernel.body.walk())


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("name", KERNELS)
def test_every_product_is_computed_once(name: str, count: int) -> None:
    program = lowered(layers(count)[name])
    assert families(program) == {f: n * count for f, n in KERNELS[name].items()}
    products = {"contraction": 1, "attention": 2}
    made = sum(products.get(f, 0) * n for f, n in KERNELS[name].items()) + (name == "gated")  # a pair has two
    assert sum(map(dots, program.kernels)) == made * count


@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_layers_are_right(name: str, keep_open: bool) -> None:
    op = layers(2)[name]
    dims = {d: n for d, n in DIMS.items() if d in op.dims}
    compare(op, dims, {}, "f32", 16, keep_open=tuple(dims) if keep_open else ())


@pytest.mark.parametrize("name", ["residual", "normed", "newton_schulz", "transformer"])
def test_work_grows_with_the_layers(name: str) -> None:
    """Twice the layers are twice the operations, and many are lowered in seconds."""
    start = time.process_time()
    few, many = (sum(1 for k in lowered(layers(n)[name]).kernels for _ in k.body.walk()) for n in (8, 16))
    assert many < 2.2 * few
    assert time.process_time() - start < 10


def test_rows_and_columns_in_turn_stay_linear() -> None:
    def balanced(n: int) -> Operator:
        @pk.operator
        def sinkhorn(x: T["M", "N"]):
            for _ in range(n):
                x = x / pk.sum(x, 0, keepdims=True)
                x = x / pk.sum(x, 1, keepdims=True)
            return x

        return sinkhorn

    few, many = (sum(1 for k in lowered(balanced(n)).kernels for _ in k.body.walk()) for n in (12, 24))
    assert many < 2.5 * few


def test_parts_of_one_product_share_it() -> None:
    """A product is computed once and stored; its slices are index maps of loads."""

    @pk.operator
    def split(x: T["M", "N"], w: T["N", 96]):  # pyright: ignore[reportGeneralTypeIssues]
        y = x @ w
        return y[:, :32], y[:, 32:64], y[:, 64:]

    @pk.operator
    def attend(x: T["S", "D"], w: T["D", 48]):  # pyright: ignore[reportGeneralTypeIssues]
        y = x @ w
        return pk.softmax(y[:, :16] @ y[:, 16:32].T) @ y[:, 32:]

    assert families(lowered(split)) == {"contraction": 1, "elementwise": 3}
    assert families(lowered(attend)) == {"contraction": 1, "attention": 1}
    compare(split, {"M": 33, "N": 40}, {}, "f32")
    compare(attend, {"S": 20, "D": 16}, {}, "f32")


def test_outputs_that_share_no_axes_share_no_kernel() -> None:
    @pk.operator
    def apart(a: T["M", "N"], b: T["K", "N"]):
        return pk.relu(a), pk.relu(b)

    @pk.operator
    def halves(x: T["M", 64]):  # pyright: ignore[reportGeneralTypeIssues]
        y = pk.silu(x)
        return y[:, :32], y[:, 32:]

    @pk.operator
    def together(a: T["M", "N"], b: T["M", "N"]):
        return a + b, a - b, pk.relu(a)

    for op, kernels in ((apart, 2), (halves, 2), (together, 1)):
        program = lowered(op, M=40, N=30, K=40)
        assert len(program.kernels) == kernels
        assert all(len(k.axes) <= 2 for k in program.kernels)
        compare(op, {d: n for d, n in {"M": 40, "N": 30, "K": 40}.items() if d in op.dims}, {}, "f32")


def test_a_value_that_meets_itself_is_stored_once() -> None:
    @pk.operator
    def meets(x: T["N", "N"]):
        y = pk.relu(x) * 2.0
        for _ in range(3):
            y = y + 0.5 * y.T
        return y

    program = lowered(meets)
    assert len(program.kernels) == 4 and len(program.by_role("temporary")) == 3
    compare(meets, {"N": 40}, {}, "f32")


def test_an_array_may_be_used_in_two_shapes() -> None:
    @pk.operator
    def shapes(x: T["M", "N"]):
        m, n = x.shape
        return x + pk.reshape(x, (n, m)).T, pk.sum(pk.reshape(x, (n, m)).T * x, 1)

    compare(shapes, {"M": 6, "N": 10}, {}, "f32")
    compare(shapes, {"M": 6, "N": 10}, {}, "f32", keep_open=("M", "N"))


def test_a_flip_of_a_reshape_is_no_transpose() -> None:
    """An access along axes that no output has is no side of a transpose."""

    @pk.operator
    def flipped(x: T["M", "N"]):
        m, n = x.shape
        return pk.flip(pk.reshape(x, (n * m,)), 0), pk.flip(pk.reshape(x, (n, m)), 1), pk.reshape(x, (n, m))[1:]

    assert families(lowered(flipped)) == {"elementwise": 3}
    compare(flipped, {"M": 6, "N": 10}, {}, "f32")
    compare(flipped, {"M": 6, "N": 10}, {}, "f32", keep_open=("M", "N"))


def test_what_attention_cannot_take_goes_by_itself() -> None:
    """Without a product in its scores, with two contracted axes there, or with open features."""

    @pk.operator
    def given(s: T["S", "S"], v: T["S", "D"]):
        return pk.softmax(s) @ v

    @pk.operator
    def two(q: T["S", "K", "D"], k: T["S", "K", "D"], v: T["S", "D"]):
        return pk.softmax(pk.einsum("ikd,jkd->ij", q, k)) @ v

    @pk.operator
    def features(q: T["S", "D"], k: T["S", "D"], v: T["S", "D"]):
        return pk.softmax(q @ k.T) @ v

    for op, keep_open, want in ((given, (), {"rows": 1, "contraction": 1}), (two, (), {"contraction": 2, "rows": 1}),
                                (features, ("D",), {"contraction": 2, "rows": 1}), (features, ("S",), {"attention": 1})):
        program = compare(op, {d: DIMS[d] for d in op.dims}, {}, "f32", keep_open=keep_open)
        assert families(program) == want


OTHERS = {"M": 20, "N": 9, "D": 8, "K": 12}


def sizes(op: Operator) -> dict[str, int]:
    return {d: OTHERS[d] for d in op.dims}


@pytest.mark.parametrize("spec", ["mn,bn->mnb", "mn,kn->mnk", "mn,mk->nmk", "mn,nk->knm", "mn,kb->nbkm"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("keep_open", [False, True])
def test_arrays_meet_themselves_through_moves(spec: str, dtype: str, keep_open: bool) -> None:
    """Whatever moves both operands share, nothing need be stored for them."""

    @pk.operator
    def op(x: T["M", "M"]):
        return pk.einsum(spec, x, x)

    @pk.operator
    def written(x: T["M", "N"]):
        y = x.T
        return y[:, :, None] * y[:, None, :], pk.cast(y, pk.f32)[:, None] - pk.cast(y, pk.f32)[None]

    for each in (op, written):
        program = compare(each, sizes(each), {}, dtype, keep_open=each.dims if keep_open else ())
        assert len(program.kernels) <= 1 + (each is written)


def test_results_may_be_made_of_coordinates_and_scalars() -> None:
    @pk.operator
    def op(x: T["M"]):
        return pk.sum(x) * pk.arange(x.shape[0], pk.f32), pk.arange(7, pk.f32) + pk.max(x)

    @pk.operator
    def one(x: T["M", "N"]):
        total = pk.sum(pk.exp(x), keepdims=True)
        return total * pk.arange(total.shape[0], pk.f32)

    for each in (op, one):
        compare(each, sizes(each), {}, "f32")


def test_scalars_become_arrays_of_one_element() -> None:
    @pk.operator
    def op(x: T["M"]):
        total = pk.sum(x)
        twice = pk.reshape(total + total, (1, 1))
        return twice * 2.0, pk.sum(pk.broadcast_to(twice, (3, 4)), 0), pk.reshape(pk.exp(pk.cast(total, pk.f32) * 0.1), (1,))

    compare(op, {"M": 20}, {}, "f32")


def test_axes_of_one_element_come_in_any_order() -> None:
    @pk.operator
    def turned(x: T["M", 1, "N", 1], y: T[1, 1, "N"]):
        return pk.einsum("bhsd,dhe->sbe", x, y), pk.einsum("bhsd,hde->bse", x, y)

    @pk.operator
    def first(x: T[1, "M", 1, "N"], y: T["N", 1, 1]):
        return pk.einsum("hbds,ehd->bes", x, y)

    for op in (turned, first):
        compare(op, sizes(op), {}, "f32")


def test_scores_used_elsewhere_are_stored() -> None:
    """Beside the pattern, along the axis that is walked: then it is no attention.  Statistics of a row may be used anywhere."""

    def attend(s, v):
        return pk.softmax(s * 0.125) @ v

    @pk.operator
    def scaled(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"], y: T["M"]):
        s = q @ k.T
        return attend(s, v), s * y[:, None]

    @pk.operator
    def reduced(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
        s = q @ k.T
        return attend(s, v), pk.sum(s, 0)

    @pk.operator
    def between(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
        s = pk.tanh(q @ k.T)
        return attend(s, v), pk.max(s * s, -1)

    @pk.operator
    def of_a_running_sum(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
        s = q @ k.T
        return attend(s + pk.cumsum(s, -1), v)

    @pk.operator
    def centred(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
        s = q @ k.T
        return attend(s - pk.mean(s, -1, keepdims=True), v)

    @pk.operator
    def statistics(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"]):
        s = q @ k.T
        m = pk.max(s, -1, keepdims=True)
        e = pk.exp(s - m)
        total = pk.sum(e, -1, keepdims=True)
        return (e / total) @ v, m + pk.log(total)

    for op in (scaled, reduced, between, of_a_running_sum, centred, statistics):
        program = compare(op, sizes(op), {}, "f32")
        assert ("attention" in families(program)) == (op is statistics), op.name


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
@pytest.mark.parametrize("scores", [pk.f32, pk.f64])
@pytest.mark.parametrize("total", [pk.f32, pk.f64])
def test_attention_may_mix_precisions(dtype: str, scores: pk.DType, total: pk.DType) -> None:
    @pk.operator
    def op(q: T["M", "D"], k: T["N", "D"], v: T["N", "K"]):
        s = pk.cast(pk.matmul(q, k.T, dtype=pk.f64 if dtype == "f64" else pk.f32), scores)
        e = pk.exp(s - pk.max(s, -1, keepdims=True))
        r = pk.cast(pk.sum(pk.cast(e, total), -1, keepdims=True), scores)
        return pk.cast(e / r, v.dtype) @ v, pk.sum(pk.cast(e, total), -1)

    assert set(families(compare(op, sizes(op), {}, dtype))) == {"attention"}


@pytest.mark.parametrize("row_tile", [4096, 16])
def test_sums_of_exponentials_may_be_wider(row_tile: int) -> None:
    @pk.operator
    def op(x: T["M", "N"]):
        e = pk.exp(x - pk.max(x, -1, keepdims=True))
        return pk.sum(pk.cast(e, pk.f64), -1)

    compare(op, {"M": 5, "N": 70}, {}, "f32", row_tile)


def test_weights_rounded_to_integers_are_no_softmax() -> None:
    @pk.operator
    def op(q: T["M", "D"], k: T["N", "D"], v: T["N", "K", pk.i32]):
        s = q @ k.T
        return pk.cast(pk.exp(s - pk.max(s, -1, keepdims=True)), pk.i32) @ v

    compare(op, sizes(op), {}, "f32")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_one_array_may_have_several_roles_in_attention(dtype: str) -> None:
    @pk.operator
    def of_itself(x: T["M", "D"]):
        return pk.softmax(pk.matmul(x, x.T, dtype=pk.f32)) @ x

    @pk.operator
    def square(x: T["M", "M"]):
        return pk.softmax(pk.matmul(x, x.T, dtype=pk.f32)) @ x

    @pk.operator
    def keys_are_values(q: T["M", "D"], x: T["N", "D"]):
        kv = pk.relu(x)
        return pk.softmax(q @ kv.T) @ kv

    @pk.operator
    def normed_keys_are_values(q: T["M", "D"], x: T["N", "D"]):
        kv = x * pk.rsqrt(pk.mean(x * x, -1, keepdims=True) + 1e-6)
        return pk.softmax(q @ kv.T) @ kv

    @pk.operator
    def turned(q: T["M", "M"], x: T["M", "M"]):
        return pk.softmax(pk.matmul(q.T, x, dtype=pk.f32)) @ x + pk.cast(x, pk.f32) + pk.cast(q.T, pk.f32)

    for op in (of_itself, square, keys_are_values, normed_keys_are_values, turned):
        assert "attention" in families(compare(op, sizes(op), {}, dtype)), op.name


def test_batch_axes_are_not_tiled() -> None:
    """An axis may have the name of a role that it does not have."""

    @pk.operator
    def op(x: T["M", "K", "D"], y: T["M", "N", "D"]):
        return pk.einsum("mkd,mnd->mkn", x, y)

    def choose(nest: Nest) -> Schedule:
        default = chooser()(nest)
        device = registry().target("cuda:sm_90a").device
        assert override(default, nest, {"m": 32}, ()).tile("m") == 1
        assert set(nest_space(nest, [default], {"m": (64, 128)}, device).choices["tile m"]) == {1}
        batch = {a.name for a in nest.role("batch")}
        return replace(default, tiles=tuple((a, 16 if a in batch else n) for a, n in default.tiles))

    with pytest.raises(ScheduleError, match="batch axes have tiles of 1"):
        lower(op.program(sizes(op), {}, "f32"), choose, {"x": ("M", "K", "D"), "y": ("M", "N", "D")})


def test_a_reshape_that_open_dims_may_not_allow_is_refused_at_its_line() -> None:
    @pk.operator
    def groups(x: T["M", "N"]):
        m, n = x.shape
        return pk.sum(pk.reshape(x, (m, 2, n // 2)), 1)

    with pytest.raises(LoweringError, match="multiple of 2") as caught:
        lower(groups.program({}), chooser())
    assert "test_cuts.py:" in caught.value.where and '"2*' in caught.value.hint
    compare(groups, {"M": 5, "N": 10}, {}, "f32", keep_open=("M",))
