"""How programs are cut into stages: what crosses is stored once, and nothing dear is computed twice."""

from __future__ import annotations

import time
from collections import Counter

import pytest

import portakern as pk
from portakern.errors import LoweringError
from portakern.ir.program import Program
from portakern.ir.tile import Dot, Kernel
from portakern.lower import lower_with
from portakern.spec.operator import Operator
from tests.lower.test_lowering import chooser, compare

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
    "squared": {"contraction": 1}, "normed": {"contraction": 1, "rows": 1}, "gated": {"contraction": 3},
    "newton_schulz": {"contraction": 2}, "transformer": {"contraction": 6, "attention": 1, "rows": 1},
}  # fmt: skip


def lowered(op: Operator, **dims: int) -> Program:
    return lower_with(op.program({d: n for d, n in (dims or DIMS).items() if d in op.dims}), chooser())


def families(program: Program) -> Counter[str]:
    return Counter(k.family for k in program.kernels)


def dots(kernel: Kernel) -> int:
    return sum(isinstance(op, Dot) for op in kernel.body.walk())


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("name", KERNELS)
def test_every_product_is_computed_once(name: str, count: int) -> None:
    program = lowered(layers(count)[name])
    assert families(program) == {f: n * count for f, n in KERNELS[name].items()}
    assert all(dots(k) == {"contraction": 1, "attention": 2}.get(k.family, 0) for k in program.kernels)


@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_layers_are_right(name: str, keep_open: bool) -> None:
    op = layers(2)[name]
    dims = {d: n for d, n in DIMS.items() if d in op.dims}
    compare(op, dims, {}, "f32", 16, keep_open=tuple(dims) if keep_open else ())


@pytest.mark.parametrize("name", ["residual", "normed", "newton_schulz", "transformer"])
def test_work_grows_with_the_layers(name: str) -> None:
    """Twice the layers are twice the operations, and fifty are lowered in seconds."""
    start = time.monotonic()
    few, many = (sum(1 for k in lowered(layers(n)[name]).kernels for _ in k.body.walk()) for n in (20, 40))
    assert many < 2.2 * few
    assert time.monotonic() - start < 30


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


def test_a_reshape_that_open_dims_may_not_allow_is_refused_at_its_line() -> None:
    @pk.operator
    def groups(x: T["M", "N"]):
        m, n = x.shape
        return pk.sum(pk.reshape(x, (m, 2, n // 2)), 1)

    with pytest.raises(LoweringError, match="multiple of 2") as caught:
        lower_with(groups.program({}), chooser())
    assert "test_cuts.py:" in caught.value.where and '"2*' in caught.value.hint
    compare(groups, {"M": 5, "N": 10}, {}, "f32", keep_open=("M",))
