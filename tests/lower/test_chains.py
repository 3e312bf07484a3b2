"""Products of products whose middle is never stored: attention's backward, and operators that nobody called attention."""

from __future__ import annotations

import math

import pytest

import portakern as pk
from portakern.emit.softmax import may_scale_first
from portakern.ir.program import Program
from portakern.ir.size import product
from portakern.ir.tile import Dot, For, Kernel
from portakern.lower import lower
from portakern.operators.attention import attention
from portakern.spec.operator import Operator
from tests.lower.test_lowering import chooser, compare

pytestmark = pytest.mark.quick

T = pk.Tensor


@pk.operator(dtypes=("f32", "bf16"))
def sigmoids(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"], bias: T["N"]):
    s = pk.einsum("md,nd->mn", q, k, dtype=pk.f32) * 0.25
    return pk.cast(pk.sigmoid(s + bias), v.dtype) @ v


@pk.operator(dtypes=("f32", "bf16"))
def alibi(q: T["H", "M", "D"], k: T["H", "N", "D"], v: T["H", "N", "D"], slope: T["H"]):
    s = pk.tanh(pk.einsum("hmd,hnd->hmn", q, k, dtype=pk.f32) * 0.1) * 10.0
    s = s - slope[:, None, None] * pk.cast(pk.arange(k.shape[1]), pk.f32)
    return pk.einsum("hmn,hnd->hmd", pk.cast(pk.softmax(s), v.dtype), v)


@pk.operator(dtypes=("f32", "bf16"))
def differential(q: T["M", "D"], k: T["N", "D"], r: T["M", "D"], l: T["N", "D"], v: T["N", "D"]):  # noqa: E741
    one, two = (pk.softmax(pk.einsum("md,nd->mn", a, b, dtype=pk.f32) * 0.25) for a, b in ((q, k), (r, l)))
    return pk.cast(one - 0.5 * two, v.dtype) @ v


@pk.operator(dtypes=("f32", "bf16"))
def windowed(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"], mask: T["M", "N"]):
    s = pk.einsum("md,nd->mn", q, k, dtype=pk.f32) * 0.25 + mask
    back = pk.arange(q.shape[0])[:, None] - pk.arange(k.shape[0])
    s = pk.where((back >= 0) & (back < 20), s, -math.inf)
    return pk.cast(pk.softmax(s), v.dtype) @ v


DIMS = {
    "sigmoids": dict(M=67, N=101, D=13), "alibi": dict(H=2, M=45, N=70, D=8), "differential": dict(M=67, N=50, D=8),
    "windowed": dict(M=67, N=67, D=8), "attention": dict(B=2, H=1, G=3, SQ=37, SK=41, D=7),
}  # fmt: skip
OPERATORS = {op.name: op for op in (sigmoids, alibi, differential, windowed, attention)}


def made(op: Operator, dims: dict[str, int], **params: object) -> Program:
    return lower(op.program(dims, params=params, dtype="bf16"), chooser())


def summary(program: Program) -> list[tuple[str, int]]:
    """Of each kernel the family and the number of products."""
    return [(k.family, sum(isinstance(op, Dot) for op in k.body.walk())) for k in program.kernels]


def stored(program: Program) -> int:
    """Elements of the largest array between kernels."""
    return max((int(product(a.type.shape)) for a in program.arrays if a.role == "temporary"), default=0)  # type: ignore


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("grad", [False, True])
def test_they_are_right_and_store_rows_alone(name: str, grad: bool) -> None:
    wrt = "q,k,v" if name == "windowed" else None  # the gradient of a mask of all scores is as large as they are
    op = pk.grad(OPERATORS[name], wrt) if grad else OPERATORS[name]
    for dtype in ("f32",) if name == "alibi" else ("f32", "bf16"):  # d_slope is a sum of thousands of roundings
        program = compare(op, DIMS[name], {"causal": True} if name == "attention" else {}, dtype)
        assert "chain" in {k.family for k in program.kernels} or not grad
        assert stored(program) < 300, "rows; the middle has thousands"
        assert all(k.family != "contraction" for k in program.kernels)


def test_the_backward_of_attention_is_three_kernels() -> None:
    """The forward with what is known of rows; dq of S, dP and dS k; dk and dv of S, dP, dS^T q and P^T do."""
    dims = dict(B=1, H=2, G=2, SQ=256, SK=256, D=64)
    for causal in (False, True):
        program = made(pk.grad(attention), dims, causal=causal)
        assert summary(program) == [("attention", 2), ("chain", 3), ("chain", 4)]
        assert [a.type.shape for a in program.arrays if a.role == "temporary"] == [(1, 2, 2, 256)] * 3


def test_scores_of_one_product_alone_have_the_weights_of_an_attention() -> None:
    """Long enough to be computed again by others, if there were any: the weights stay quotients, and may be powers of two."""
    (kernel,) = made(attention, dict(B=1, H=1, G=1, SQ=512, SK=512, D=64), causal=True).kernels
    assert kernel.family == "attention" and may_scale_first(kernel)


def test_what_an_attention_takes_is_loaded() -> None:
    """Keys and values of few depths: another product would compute them again, tile by tile."""

    @pk.operator
    def of_few_depths(q: T["E", "D"], x: T["M", "N"], w: T["N", "K"], wk: T["K", "D"], wv: T["K", "F"]):
        h = pk.tanh(x @ w)
        return pk.softmax(q @ (h @ wk).T) @ pk.tanh(h @ wv)

    program = made(of_few_depths, dict(E=65, D=17, M=129, N=40, K=4, F=20))
    assert summary(program) == [("contraction", 1)] * 3 + [("attention", 2)]


@pytest.mark.parametrize(
    ("divisor", "fused"),
    [
        (lambda total, m, x: total, True),
        (lambda total, m, x: total + pk.exp(x - m), True),  # an attention sink
        (lambda total, m, x: pk.maximum(total * 2.0, 1e-6), True),
        (lambda total, m, x: total * x, False),  # 0 / 0 where x is 0
        (lambda total, m, x: total + x, False),
        (lambda total, m, x: x, False),
    ],
    ids=["sum", "sink", "scaled", "times_input", "plus_input", "input"],
)
def test_weights_are_divided_after_the_product_where_the_divisor_is_above_zero(divisor, fused: bool) -> None:
    @pk.operator
    def op(q: T["M", "D"], k: T["N", "D"], v: T["N", "D"], x: T["M", 1, pk.f32]):
        s = pk.einsum("md,nd->mn", q, k, dtype=pk.f32)
        m = pk.max(s, axis=-1, keepdims=True)
        e = pk.exp(s - m)
        return pk.cast(e / divisor(pk.sum(e, axis=-1, keepdims=True), m, x), v.dtype) @ v, x * 2.0

    kernels = made(op, dict(M=64, N=64, D=16)).kernels
    assert [k.family for k in kernels].count("attention") == fused


def test_only_what_is_asked_for_is_computed() -> None:
    dims = dict(B=1, H=2, G=2, SQ=256, SK=256, D=64)
    assert summary(made(pk.grad(attention, wrt="q"), dims)) == [("attention", 2), ("chain", 3)]
    saved = made(pk.grad(attention, save="out"), dims)
    assert ("attention", 2) not in summary(saved)
    assert stored(saved) == 2 * 2 * 256


def test_an_array_that_two_products_read_is_loaded_once() -> None:
    program = made(pk.grad(attention), dict(B=1, H=2, G=2, SQ=256, SK=256, D=64))
    for kernel in program.kernels[1:]:
        loads = [op for op in kernel.body.walk() if op.mnemonic() == "load"]
        assert len({op.operands[0] for op in loads}) == len(loads)


def test_a_causal_walk_for_queries_ends_at_the_diagonal() -> None:
    dims = dict(B=1, H=1, G=1, SQ=256, SK=256, D=32)
    ends = [walk(k).hi is not None for k in made(pk.grad(attention), dims, causal=True).kernels]
    assert ends[:2] == [True, True]
    assert not any(walk(k).hi is not None for k in made(pk.grad(attention), dims).kernels)


def walk(kernel: Kernel) -> For:
    """The innermost loop."""
    return [op for op in kernel.body.walk() if isinstance(op, For)][-1]


# ---- where the middle is stored --------------------------------------------------------------------------------------------


@pk.operator
def thrice(x: T["M", "K"], y: T["K", "N"], z: T["N", "P"]):
    return pk.tanh(x @ y) @ z


@pk.operator
def kept(x: T["M", "K"], y: T["K", "N"], z: T["N", "P"]):
    middle = pk.tanh(x @ y)
    return middle, middle @ z


@pk.operator
def squared(x: T["M", "K"], y: T["K", "N"]):
    middle = pk.tanh(x @ y)
    return pk.einsum("mn,mp->np", middle, middle)


@pytest.mark.parametrize(("op", "dims", "chained"), [
    (thrice, dict(M=300, K=16, N=200, P=8), True),
    (thrice, dict(M=30, K=16, N=30, P=8), False),  # no larger than what it is made of
    (thrice, dict(M=3000, K=200, N=3000, P=8), False),  # dear to compute again
    (thrice, dict(M=100000, K=8, N=32, P=8), False),  # a block for a few rows would walk long
    (thrice, dict(M=300, K=16, N=200, P=400), False),  # features that no tile covers
    (kept, dict(M=300, K=16, N=200, P=8), False),
    (squared, dict(M=300, K=16, N=200), False),
])  # fmt: skip
def test_a_middle_is_computed_again_where_that_pays(op: Operator, dims: dict[str, int], chained: bool) -> None:
    program = lower(op.program(dims), chooser())
    assert ("chain" in {k.family for k in program.kernels}) == chained


def test_where_a_language_has_no_schedule_products_are_stored() -> None:
    from portakern.ir.schedule import Nest, Schedule
    from portakern.lower.kernel import NoSchedule

    def choose(nest: Nest) -> Schedule:
        if nest.family == "chain":
            raise NoSchedule("no chains here")
        return chooser()(nest)

    program = lower(thrice.program(dict(M=300, K=16, N=200, P=8)), choose)
    assert [k.family for k in program.kernels] == ["contraction", "contraction"]


def test_open_rows() -> None:
    dims = dict(M=67, N=101, D=13)
    compare(pk.grad(sigmoids), dims, {}, "f32", keep_open=("M", "N"))




# ---- middles whose last axes are not those of two matrices ---------------------------------------------------------------


@pk.operator
def outer_mean(a: T["S", "I", "C"], b: T["S", "J", "D"], w: T["C", "D", "Z"]):
    """Of the structure modules of protein networks: i and c come of one operand, j and d of the other."""
    return pk.einsum("ijcd,cdz->ijz", pk.einsum("sic,sjd->ijcd", a, b) / 5.0, w)


@pk.operator
def outer_mean_of_rows(a: T["I", "C", "S"], b: T["J", "D", "S"], w: T["C", "D", "Z"]):
    return pk.einsum("ijcd,cdz->ijz", pk.einsum("ics,jds->ijcd", a, b) / 5.0, w)


@pk.operator
def relative(q: T["B", "I", "K"], k: T["B", "J", "K"], w: T["I", "J", "Z"]):
    """Values by position (Shaw and others 2018): every row has a matrix of its own."""
    return pk.einsum("bij,ijz->biz", pk.tanh(pk.einsum("bik,bjk->bij", q, k)), w)


def test_a_block_keeps_rows_of_one_operand_and_walks_those_of_the_other() -> None:
    program = compare(outer_mean_of_rows, dict(S=5, I=9, J=11, C=6, D=8, Z=7), {}, "f32")
    assert summary(program) == [("chain", 2)]
    for dot in (op for op in program.kernels[0].body.walk() if isinstance(op, Dot)):
        assert len(dot.lhs.type.dims) == len(dot.rhs.type.dims) == 2  # type: ignore[union-attr]


def test_a_middle_that_only_vectors_would_be_made_of_is_stored() -> None:
    program = compare(relative, dict(B=3, I=70, J=40, K=5, Z=9), {}, "f32")
    assert [family for family, _ in summary(program)] == ["contraction", "contraction"]


def test_a_middle_whose_operands_would_be_read_element_by_element_is_stored() -> None:
    program = compare(outer_mean, dict(S=5, I=9, J=11, C=6, D=8, Z=7), {}, "f32")
    assert "chain" not in {family for family, _ in summary(program)}


@pk.operator
def talking(q: T["H", "I", "K"], k: T["H", "J", "K"], v: T["H", "J", "D"], w: T["H", "H"]):
    """Talking heads (Shazeer and others 2020): scores are mixed over heads."""
    s = pk.einsum("hij,hg->gij", pk.einsum("hik,hjk->hij", q, k) * 0.2, w)
    return pk.einsum("hij,hjd->hid", pk.softmax(s), v)


def test_scores_that_have_rows_and_keys_of_one_operand_are_no_attention() -> None:
    program = compare(talking, dict(H=3, I=9, J=13, K=8, D=10), {}, "f32")
    assert "attention" not in {family for family, _ in summary(program)}
