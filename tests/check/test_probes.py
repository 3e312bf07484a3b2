"""Bounds of long programs say something, and no legal evaluation goes beyond them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import portakern as pk
from portakern.check.adversarial import KINDS, adversarial_inputs
from portakern.check.bounds import Val, probes, propagate
from portakern.check.bounds.blocks import apply_block
from portakern.check.compare import compare
from portakern.dtypes import numpy_dtype
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.operators.attention import attention
from portakern.spec.inputs import make_inputs

from .legal import Machine
from .test_legal import STEPS, judge, operator_of

pytestmark = pytest.mark.quick

T = pk.Tensor
LAYERS = 8


@pk.operator
def layers(x: T["M", "N"], w: T[LAYERS, "N", "N"]):
    for n in range(LAYERS):
        x = pk.relu(pk.matmul(x, w[n]))
    return x


@pk.operator
def leaky(x: T["M", "N"], w: T[LAYERS, "N", "N"]):
    """A comparison decides in every layer, and near zero nothing hangs on it."""
    for n in range(LAYERS):
        y = x @ w[n]
        x = pk.where(y > 0, y, 0.01 * y)
    return x


@pk.operator
def blocks(x: T["M", "N"], q: T["N", "N"], k: T["N", "N"], v: T["N", "N"], up: T["N", "2*N"], down: T["2*N", "N"]):
    for _ in range(3):
        weights = pk.softmax(pk.matmul(x @ q, (x @ k).T, dtype=pk.f32) * 0.2)
        x = _normal(x + pk.cast(weights, x.dtype) @ (x @ v))
        x = _normal(x + pk.gelu(x @ up) @ down)
    return x


def _normal(x: pk.Tensor):
    y = pk.cast(x, pk.f32)
    y = y - pk.mean(y, axis=-1, keepdims=True)
    return pk.cast(y * pk.rsqrt(pk.mean(y * y, axis=-1, keepdims=True) + 1e-5), x.dtype)


def inputs_of(program: TensorProgram) -> dict[str, np.ndarray]:
    """Arrays of which a layer keeps the size."""
    made = make_inputs(program, {}, 0)
    return {n: x if n == "x" else (x.astype(np.float32) * np.sqrt(2 / x.shape[-2])).astype(x.dtype) for n, x in made.items()}


def at_worst(program: TensorProgram, inputs: dict[str, np.ndarray]) -> Val:
    with np.errstate(all="ignore"):
        return apply_block(program.body, [Val(inputs[a.name].astype(np.float64)) for a in program.args])[0]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("operator", [layers, leaky, blocks])
def test_a_long_program_has_a_bound_that_says_something_and_that_is_kept(operator: pk.Operator, dtype: str) -> None:
    program = operator.program({"M": 9, "N": 64}, {}, dtype)
    given = inputs_of(program)
    assert probes.says_little(at_worst(program, given))
    (want,) = propagate(program, given).values()
    usual = np.sqrt(np.mean(np.square(want.x)))
    most = 1.0 if dtype == "bf16" else 0.001 if operator is layers else 0.005
    assert np.median(want.bound()) < most * usual
    for seed in range(6):
        (got,) = Machine(np.random.default_rng(seed)).run(program, given).values()
        found = compare(want, dtype, got.astype(numpy_dtype(dtype)))
        assert found.ratio <= 1, found.message


@pytest.mark.parametrize("operator", [layers, leaky, blocks])
def test_a_layer_that_is_off_by_a_hundredth_is_seen(operator: pk.Operator) -> None:
    program = operator.program({"M": 9, "N": 64}, {}, "f32")
    given = inputs_of(program)
    (want,) = propagate(program, given).values()
    layer = (0,) if "w" in given else ()
    name = "w" if "w" in given else "down"
    changed = given | {name: given[name].copy()}
    changed[name][layer] *= np.float32(1.01)
    (wrong,) = propagate(program, changed).values()
    assert compare(want, "f32", wrong.x.astype(np.float32)).ratio > 1
    assert compare(at_worst(program, given), "f32", wrong.x.astype(np.float32)).ratio < 1


@pk.operator
def bent(x: T["M", "N"], w: T["N", "N"]):
    """Thousands of numbers, each a row, some of them nearer to a kink than probes and kernels are to each other."""
    c = pk.expand_dims(((1.0 - x) @ w) @ w, -1)
    return pk.relu(c), pk.minimum(c, 0.0), abs(c), pk.maximum(c[::2], c[1::2]), pk.silu(c * 1e10), pk.tanh(c * 1e10)


def test_behind_a_kink_is_what_no_probe_has_seen() -> None:
    program = bent.program({"M": 512, "N": 96}, {}, "bf16")
    given = make_inputs(program, {}, 0)
    wants = propagate(program, given)
    for seed in range(6):
        for name, got in Machine(np.random.default_rng(seed)).run(program, given).items():
            found = compare(wants[name], "bf16", got.astype(numpy_dtype("bf16")))
            assert found.ratio <= 1, f"{name}: {found.message}"


@pk.operator
def correlations(x: T["N", "D"], y: T["N", "E"]):
    """Of columns, whose means are taken off."""
    a, b = x - pk.mean(x, axis=0), y - pk.mean(y, axis=0)
    sizes = pk.sum(a * a, axis=0)[:, None] * pk.sum(b * b, axis=0)[None, :]
    return pk.matmul(a.T, b) / pk.sqrt(sizes + 1e-6)


def test_errors_that_are_alike_and_cancel_leave_their_roundings() -> None:
    """Where a mean is off, all that it was taken off from are alike."""
    program = pk.grad(correlations).program({"N": 41, "D": 9, "E": 12}, {}, "f32")
    given = adversarial_inputs("constant", program, {}, 0)
    wants = propagate(program, given)
    for seed in range(6):
        for name, got in Machine(np.random.default_rng(seed)).run(program, given).items():
            found = compare(wants[name], "f32", got.astype(np.float32))
            assert found.ratio <= 1, f"{name}: {found.message}"


@pk.operator
def narrowed(x: T["M", "N"], w: T["N", "N"]):
    return pk.cast((((1.0 - x) @ w) @ w) * 200.0, pk.f8e5m2)


def test_what_may_be_too_large_for_its_dtype_has_no_bound() -> None:
    program = narrowed.program({"M": 512, "N": 96}, {}, "bf16")
    given = make_inputs(program, {}, 0)
    (want,) = propagate(program, given).values()
    worst = at_worst(program, given)
    assert probes.says_little(worst)
    largest = np.isinf(worst.bound()) & (np.abs(want.x) == 57344)
    assert largest.any() and np.isinf(want.bound()[largest]).all()


@pk.operator
def against_itself(x: T["N", "N"], w: T["N", "N"]):
    y = x
    for _ in range(3):
        y = pk.tanh(y @ w)
    z = pk.exp(y)
    return (z / z - 1.0) @ w


def test_what_meets_itself_may_have_been_computed_twice() -> None:
    """A probe has one error for both, which cancel; a kernel may compute it once more, in another way."""
    program = against_itself.program({"N": 32}, {}, "f32")
    given = make_inputs(program, {}, 0)
    (want,) = propagate(program, given).values()
    assert not want.x.any()
    twice = np.full(want.x.shape, np.float32(2.0**-22))
    assert compare(want, "f32", twice).ratio <= 1


@pk.operator
def decided_late(x: T["M", "N"], w: T["N", "N"]):
    for _ in range(4):
        x = x @ w
    return pk.take(w, pk.argmax(x, axis=1), axis=0)


@pk.operator
def divided(x: T["M", "N"], w: T["N", "N"]):
    y = x
    for _ in range(4):
        y = y @ w
    return x / (y - y * 1.0000001)


@pytest.mark.parametrize("operator", [decided_late, divided])
def test_what_roundings_may_decide_is_not_measured(operator: pk.Operator) -> None:
    program = operator.program({"M": 12, "N": 24}, {}, "f32")
    given = make_inputs(program, {}, 0)
    given["x"][::2] = 0  # a tie of zeros is a tie, and a quotient of them anything
    args = [Val(given[a.name].astype(np.float64)) for a in program.args]
    with np.errstate(all="ignore"):
        made = apply_block(program.body, args)
        found = probes.measured(program.body, args, made)
    for a, b in zip(made, found, strict=True):
        np.testing.assert_array_equal(a.bound(), b.bound())


@pk.operator
def zeros_counted(x: T["M", "K"], y: T["K", "N"]):
    """Of exponentials that kernels may flush to zero."""
    return x @ pk.cast(pk.exp(y) <= 0.0, x.dtype)


@pk.operator
def signs_counted(x: T["M", "K"], y: T["K", "K"]):
    """Of numbers that are as near to zero as their error."""
    return x @ pk.cast(pk.sign(y @ y - y @ y), x.dtype)


@pytest.mark.parametrize("operator", [zeros_counted, signs_counted])
def test_what_is_decided_before_a_product_counts_in_it(operator: pk.Operator) -> None:
    program = operator.program({"M": 5, "K": 16, **({"N": 7} if operator is zeros_counted else {})}, {}, "f32")
    given = make_inputs(program, {}, 0)
    if operator is zeros_counted:
        given["y"][...] = -200
    (want,) = propagate(program, given).values()
    other = np.repeat(given["x"].sum(1, dtype=np.float64)[:, None], want.x.shape[1], 1)
    assert not want.x.any() and compare(want, "f32", other.astype(np.float32)).ratio <= 1


@pk.operator
def any_of_many_counted(x: T["M", "K"], y: T["K", "K"], w: T["K", "N"]):
    """Of exponentials that kernels may flush to zero, each times a number of either sign: none or all is not the farthest."""
    return pk.cast(pk.exp(x @ y) <= 0.0, x.dtype) @ w


@pytest.mark.parametrize("seed", range(8))
def test_of_what_is_decided_any_may_be_in_a_sum(seed: int) -> None:
    program = any_of_many_counted.program({"M": 4, "K": 32, "N": 3}, {}, "f32")
    given = make_inputs(program, {}, seed)
    given["x"][...] = -8
    given["y"][...] = 1
    (want,) = propagate(program, given).values()
    assert not want.x.any()
    larger = np.maximum(given["w"].astype(np.float64), 0.0).sum(0, keepdims=True)
    assert compare(want, "f32", np.repeat(larger, 4, 0).astype(np.float32)).ratio <= 1


def test_results_of_one_operation_keep_their_bound() -> None:
    @pk.operator
    def product(x: T["M", "N"], w: T["N", "N"]):
        return x @ w

    program = product.program({"M": 9, "N": 64}, {}, "bf16")
    given = inputs_of(program)
    (want,) = propagate(program, given).values()
    np.testing.assert_array_equal(want.bound(), at_worst(program, given).bound())
    assert tensor_type(program.results[0]).dtype == "bf16"


@pytest.mark.parametrize("seed", range(20))
def test_no_legal_evaluation_of_a_long_chain_is_called_wrong(seed: int) -> None:
    """20 chains each, half of whose operations are those of networks: about one in twelve has a bound that is measured."""
    rng = random.Random(seed)
    networks = ("matmul", "transposed", "residual", "softmax", "norm", "tanh", "sigmoid", "mean", "less_product", "round")
    for _ in range(20):
        names = rng.choices([*STEPS, *networks * 3], k=rng.randrange(3, 13))
        chain = [(name, (rng.randrange(10), rng.randrange(10), rng.randrange(10))) for name in names]
        program = operator_of(chain).program({"N": rng.choice([3, 8, 17, 40])}, {}, rng.choice(["f32", "bf16", "f16"]))
        judge(program, {}, ["values", rng.choice([*KINDS])], seed)


def test_a_row_says_of_what_little_is_known() -> None:
    (row,) = pk.check(divided, ["cpp:cpu"], "f32", M=9, N=16).rows
    assert row.correct and (row.method or "").endswith("roundings may decide much of out")
    (row,) = pk.check(layers, ["cpp:cpu"], "f32", M=9, N=16).rows
    assert row.correct and "roundings may decide" not in (row.method or "")


@pytest.mark.parametrize("tiny", [0.0, 5e-324, 1e-305, 1e-200, 1e-45])
@pytest.mark.parametrize("farthest", [1e-3, 1e4, 1e300])
def test_a_row_that_underflows_beside_others_has_a_bound(tiny: float, farthest: float) -> None:
    """As of the gradient of an attention whose weights are 0 and 1."""
    x = np.array([[1.0, -2.0, 0.5], [tiny, -tiny, 0.0]])
    at_worst, apart = Val(x, np.full(x.shape, 1e290)), np.full(x.shape, farthest)
    with np.errstate(all="ignore"):
        found = probes.nearer(at_worst, Val(x), apart, "f32").bound()
    assert (found <= 1e290).all() and (found >= np.minimum(apart, 1e290)).all()


def test_the_gradient_of_an_attention_that_sees_one_key_has_a_bound() -> None:
    program = pk.grad(attention, ("q",)).program({"B": 1, "H": 1, "G": 1, "SQ": 40, "SK": 40, "D": 64}, {}, "f32")
    (want,) = propagate(program, adversarial_inputs("steep", program, {}, 0)).values()
    assert (want.bound() > 0).all()
