"""Bounds: exact where arithmetic is exact, wide where answers are open, and never below what correct kernels do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

import portakern as pk
from portakern.check.bounds import propagate
from portakern.check.compare import compare, error_ratio
from portakern.dtypes import numpy_dtype
from portakern.ir.tensor import tensor_type

pytestmark = pytest.mark.quick

f32 = np.float32


def bounds_of(operator, dims, inputs, dtype="f32", params=None):
    program = operator.program(dims, params or {}, dtype)
    return program, propagate(program, inputs)


@pk.operator
def compares(x: pk.Tensor["N"], y: pk.Tensor["N"]):
    return pk.where(x * 3 > y, x, -x), pk.floor(x * 3), x * 3 > y


@pk.operator
def indices(x: pk.Tensor["M", "N"]):
    e = pk.exp(x)
    return pk.argmax(e), pk.argmax(x), pk.argsort(e)


@pk.operator
def functions(x: pk.Tensor["N"]):
    p = pk.abs(x) + 0.5
    return {
        "exp": pk.exp(x), "log": pk.log(p), "tanh": pk.tanh(x), "sigmoid": pk.sigmoid(x), "rsqrt": pk.rsqrt(p),
        "div": x / p, "erf": pk.erf(x), "sin": pk.sin(x), "gelu": pk.gelu(x), "silu": pk.silu(x), "pow": p**2.5,
        "log1p": pk.log1p(p), "expm1": pk.expm1(x), "softplus": pk.softplus(x), "cumsum": pk.cumsum(x), "prod": p * p / p,
    }  # fmt: skip


@pk.operator
def rows_put_at_the_largest(x: pk.Tensor["M", "K"], r: pk.Tensor["K", "N"]):
    return pk.index_put(pk.zeros(x.shape, x.dtype), (pk.argmax(x @ r, axis=-1),), x * 1.7)


def test_rows_are_as_inexact_where_they_are_put_as_before() -> None:
    """Where products decide the places beyond doubt, what is put there is still rounded."""
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((9, 16)).astype(f32), "r": rng.standard_normal((16, 3)).astype(f32)}
    _, out = bounds_of(rows_put_at_the_largest, {"M": 9, "K": 16, "N": 3}, inputs)
    bound, put = out["out"].bound(), out["out"].x != 0
    assert np.isfinite(bound).all() and (bound[put] > 0).all()


def test_small_integers_are_exact() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, s).astype(f32) for s in ((20, 300), (300, 30)))
    _, out = bounds_of(pk.load_operator("matmul"), {"M": 20, "N": 30, "K": 300}, {"a": a, "b": b})
    assert not out["out"].bound().any()
    np.testing.assert_array_equal(out["out"].x, a.astype(int) @ b.astype(int))


def test_a_comparison_too_close_to_call_allows_both_answers() -> None:
    x = np.array([0.1, 0.1, 0.1], f32)
    product = float(x[0]) * 3
    y = np.array([product, product * 1.01, 0.0], f32)
    _, out = bounds_of(compares, {"N": 3}, {"x": x, "y": y})
    assert (out["out2"].bound() > 0).tolist() == [True, False, False]
    assert out["out0"].bound()[0] == pytest.approx(0.2)
    assert not out["out0"].bound()[1:].any()


def test_a_boolean_of_what_may_be_zero_allows_both_answers() -> None:
    @pk.operator
    def flags(x: pk.Tensor["N"]):
        return pk.cast(pk.exp(x), pk.boolean)

    _, out = bounds_of(flags, {"N": 4}, {"x": np.array([-200.0, -95.0, -80.0, 0.0], f32)})
    assert [compare(out["out"], "bool", np.array([i == n for n in range(4)]) ^ np.array([True] * 4)).ratio <= 1
            for i in range(4)] == [True, True, False, False]  # fmt: skip


def test_of_no_elements_any_may_be_the_largest() -> None:
    @pk.operator
    def largest(x: pk.Tensor["M", "N"]):
        return pk.argmax(x, axis=1)

    _, out = bounds_of(largest, {"M": 2, "N": 0}, {"x": np.zeros((2, 0), f32)})
    assert compare(out["out"], "i32", np.array([7, -1], np.int32)).ratio <= 1


def test_a_tie_within_the_error_allows_each_of_the_tied() -> None:
    x = np.array([[1.0, 1.0 + 2.0**-23, 0.5]], f32)
    _, out = bounds_of(indices, {"M": 1, "N": 3}, {"x": x})
    tied, exact = out["out0"], out["out1"]
    assert [compare(tied, "i32", np.array([i], np.int32)).ratio <= 1 for i in range(3)] == [True, True, False]
    assert [compare(exact, "i32", np.array([i], np.int32)).ratio <= 1 for i in range(3)] == [False, True, False]
    order = out["out2"]
    assert compare(order, "i32", np.array([[2, 1, 0]], np.int32)).ratio <= 1
    assert compare(order, "i32", np.array([[0, 1, 2]], np.int32)).ratio > 1


@pk.operator
def ordered(x: pk.Tensor["M", "N"]):
    return {"up": pk.sort(x), "places": pk.argsort(x, descending=True), "top": pk.topk(x, 2)[1], "most": pk.argmax(x),
            "least": pk.argmin(x)}  # fmt: skip


@pytest.mark.parametrize("exact", [True, False], ids=["inputs", "computed"])
def test_a_nan_is_the_last_of_a_sort_and_the_place_of_an_extreme(exact: bool) -> None:
    @pk.operator
    def computed(x: pk.Tensor["M", "N"]):
        return ordered(pk.tanh(x))

    x = np.array([[0.5, np.nan, -np.inf, -np.nan, 2.0, np.inf]], f32)
    _, out = bounds_of(ordered if exact else computed, {"M": 1, "N": 6}, {"x": x})
    up = np.sort(x if exact else np.tanh(x))
    right = {"up": up, "places": [[1, 3, 5, 4, 0, 2]], "top": [[1, 3]], "most": [1], "least": [1]}
    wrong = {"up": up[:, ::-1], "places": [[5, 4, 0, 2, 1, 3]], "top": [[5, 4]], "most": [5], "least": [2]}
    for name, expected in out.items():
        dtype = "f32" if name == "up" else "i32"
        assert compare(expected, dtype, np.array(right[name])).ratio <= 1, name
        assert compare(expected, dtype, np.array(wrong[name])).ratio > 1, name


@pk.operator
def integers_that_a_rounding_decides(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N", pk.i8]):
    q = pk.cast(pk.round(x / 3 * 3), pk.i8)
    wide = pk.cast(q, pk.i32)
    return (pk.matmul(q, w, dtype=pk.i32), pk.matmul(w.T, q.T, dtype=pk.i32), pk.sum(wide, axis=1), pk.max(wide, axis=1),
            pk.cumsum(wide, axis=1), pk.prod(wide, axis=1), pk.cumprod(wide, axis=1))  # fmt: skip


def test_integers_carry_on_what_a_rounding_decides() -> None:
    """x / 3 * 3 of 0.5 and 1.5 may lie on either side: what integers make of it is right for both, and sure elsewhere."""
    inputs = {"x": np.asarray([[0.5, 1.5, 2.0], [1.0, 2.0, 3.0]], f32), "w": np.asarray([[7, 0], [-5, 1], [2, 4]], np.int8)}
    program, vals = bounds_of(integers_that_a_rounding_decides, dict(M=2, K=3, N=2), inputs)
    w = inputs["w"].astype(np.int32)
    for first in (0, 1):
        for second in (1, 2):
            q = np.asarray([[first, second, 2], [1, 2, 3]], np.int32)
            made = (q @ w, (q @ w).T, q.sum(1), q.max(1), q.cumsum(1), q.prod(1), q.cumprod(1))
            for name, value in zip(program.outputs, made, strict=True):
                assert compare(vals[name], "i32", value.astype(np.int32)).ratio <= 1, name
                wrong = value.copy().astype(np.int32)
                wrong[(0, 1) if name == "out1" else 1] += 1
                assert compare(vals[name], "i32", wrong).ratio > 1, name


def test_overflow_certain_and_uncertain() -> None:
    top = float(np.finfo(f32).max)
    x, y = np.array([top, top, 1.0], f32), np.array([top, 0.0, 2.0], f32)
    program, out = bounds_of(pk.load_operator("add_relu"), {"M": 1, "N": 3}, {"a": x[None], "b": y[None]})
    assert out["out"].x[0, 0] == np.inf
    assert error_ratio(out["out"], "f32", np.array([[np.inf, top, 3]], f32)).max() <= 1
    assert error_ratio(out["out"], "f32", np.array([[top, top, 3]], f32)).max() > 1
    assert tensor_type(program.results[0]).dtype == "f32"


def test_exp_of_what_is_all_error_may_be_an_infinity_or_nothing() -> None:
    """Distances of a large vector to itself: what is left of them, of either sign, is beyond what exp can of f64."""

    @pk.operator
    def near(x: pk.Tensor["N", "D"]):
        y = x * 1.1
        d = pk.sum(y * y, axis=1) - 1.1 * pk.sum(x * y, axis=1)
        return pk.exp(-d), pk.exp(-d) * 0.0, pk.exp(pk.sum(x * x, axis=1))

    x = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32) * np.float32(2.0**40)
    _, out = bounds_of(near, {"N": 40, "D": 16}, {"x": x})
    assert np.isinf(out["out0"].x).any() and (out["out0"].x == 0).any(), "the case has lost what it is about"
    for name in ("out0", "out1"):
        for answer in (np.inf, 0.0, np.nan):
            assert compare(out[name], "f32", np.full(40, answer, np.float32)).ratio <= 1, (name, answer)
    assert compare(out["out2"], "f32", np.full(40, np.inf, np.float32)).ratio <= 1
    assert compare(out["out2"], "f32", np.zeros(40, np.float32)).ratio > 1, "this one is certain"


def test_nan_and_infinity_must_match() -> None:
    x = np.array([[np.nan, np.inf, 1.0], [-np.inf, -np.inf, -np.inf]], f32)
    _, out = bounds_of(pk.load_operator("softmax"), {"M": 2, "N": 3}, {"x": x})
    assert np.isnan(out["out"].x).all()
    assert compare(out["out"], "f32", np.full((2, 3), np.nan, f32)).ratio == 0
    assert compare(out["out"], "f32", np.zeros((2, 3), f32)).ratio > 1


def test_zero_times_nan_may_be_skipped_but_a_weight_times_nan_may_not() -> None:
    a = np.array([[0.0, 1.0], [1.0, 1.0]], f32)
    b = np.array([[np.nan], [2.0]], f32)
    _, out = bounds_of(pk.load_operator("matmul"), {"M": 2, "N": 1, "K": 2}, {"a": a, "b": b})
    assert compare(out["out"], "f32", np.array([[2.0], [np.nan]], f32)).ratio <= 1
    assert compare(out["out"], "f32", np.array([[np.nan], [np.nan]], f32)).ratio <= 1
    assert compare(out["out"], "f32", np.array([[2.0], [2.0]], f32)).ratio > 1


def reference(x: np.ndarray) -> dict[str, np.ndarray]:
    """The functions in float32, as a plain kernel computes them."""
    import math

    p = np.abs(x) + f32(0.5)
    erf = np.vectorize(math.erf, otypes=[f32])
    sigmoid = f32(1) / (f32(1) + np.exp(-x))
    return {
        "exp": np.exp(x), "log": np.log(p), "tanh": np.tanh(x), "sigmoid": sigmoid, "rsqrt": f32(1) / np.sqrt(p),
        "div": x / p, "erf": erf(x), "sin": np.sin(x), "gelu": x * f32(0.5) * (erf(x * f32(math.sqrt(0.5))) + f32(1)),
        "silu": x * sigmoid, "pow": p ** f32(2.5), "log1p": np.log1p(p), "expm1": np.expm1(x),
        "softplus": np.maximum(x, f32(0)) + np.log1p(np.exp(-np.abs(x))), "cumsum": np.cumsum(x, dtype=f32),
        "prod": p * p / p,
    }  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-80, 80, width=32), min_size=1, max_size=40))
def test_plain_f32_arithmetic_is_always_within_the_bounds(numbers: list[float]) -> None:
    x = np.array(numbers, f32)
    with np.errstate(all="ignore"):
        program, out = bounds_of(functions, {"N": len(numbers)}, {"x": x})
        for name, value in reference(x).items():
            result = compare(out[name], "f32", value)
            assert result.ratio <= 1, f"{name}: {result.message}"
    assert len(program.outputs) == 16


@pk.operator
def rounded_and_weighed(x: pk.Tensor["N", pk.f32], w: pk.Tensor["N", pk.bf16]):
    return pk.cast(pk.exp(x), pk.bf16) * w


def test_the_neighbour_of_a_representable_product_is_rounded_too() -> None:
    # exp(x) is about 156.5/512, where it may be rounded either way: 156/512 * 1.5 is a bf16 number, 157/512 * 1.5 is none.
    x = np.log(np.float64(156.5 / 512) * (1 - 2.0**-25)).astype(np.float32)
    x = np.nextafter(x, np.float32(-9)) if np.exp(np.float64(x)) >= 156.5 / 512 else x
    w = np.array([1.5], bfloat16)
    out = bounds_of(rounded_and_weighed, {"N": 1}, {"x": np.array([x]), "w": w})[1]["out"]
    assert error_ratio(out, "bf16", np.array([234 / 512], bfloat16)).max() <= 1
    assert error_ratio(out, "bf16", np.array([236 / 512], bfloat16)).max() <= 1
    assert error_ratio(out, "bf16", np.array([238 / 512], bfloat16)).max() > 1


@pk.operator
def added_to_no_terms(x: pk.Tensor["M", "K"], y: pk.Tensor["K", "N"], z: pk.Tensor["M", "D"], w: pk.Tensor["D", "N"]):
    return x @ y + pk.log_softmax(z @ w)


def test_what_is_open_stays_open_beside_a_sum_of_no_terms() -> None:
    """Its length times that bound is no number."""
    rng = np.random.default_rng(0)
    inputs = {"x": np.ones((2, 0), f32), "y": np.ones((0, 3), f32), "z": (rng.standard_normal((2, 8)) * 1e12).astype(f32),
              "w": rng.standard_normal((8, 3)).astype(f32)}  # fmt: skip
    out = bounds_of(added_to_no_terms, {"M": 2, "K": 0, "N": 3, "D": 8}, inputs)[1]["out"]
    assert out.open().all() and np.isfinite(out.x).all()


@pk.operator
def narrowed(x: pk.Tensor["N", pk.f64]):
    return pk.cast(x, pk.f16)


def test_doubles_may_become_narrow_by_way_of_f32() -> None:
    """As PyTorch's do: what is not a tie becomes one."""
    x = np.array([1933.5 - 1e-7, 1933.4, 7.0])
    out = bounds_of(narrowed, {"N": 3}, {"x": x}, "f64")[1]["out"]
    once, twice = x.astype(np.float16), x.astype(f32).astype(np.float16)
    assert once.tolist() != twice.tolist() == [1934, 1933, 7]
    for found in (once, twice):
        assert error_ratio(out, "f16", found).max() <= 1
    assert error_ratio(out, "f16", np.array([1934, 1934, 7.01], np.float16)).tolist()[0] <= 1
    assert (error_ratio(out, "f16", np.array([1935, 1934, 7.01], np.float16)) > 1).all()


def test_bounds_are_not_sloppy() -> None:
    """A relative error of 1e-5 is outside every bound but that of running sums that cancel."""
    x = np.random.default_rng(0).standard_normal(200).astype(f32)
    _, out = bounds_of(functions, {"N": 200}, {"x": x})
    for name, v in out.items():
        relative = np.median(v.bound() / np.maximum(np.abs(v.x), 1e-30))
        assert relative < (1e-3 if name == "cumsum" else 1e-5), name


@pytest.mark.parametrize(("dtype", "wrong"), [("f32", 1.001), ("bf16", 1.05)])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm", "matmul_bias_gelu", "attention", "silu_mul"])
def test_a_small_relative_error_of_every_operator_fails(name: str, dtype: str, wrong: float) -> None:
    from portakern.spec.inputs import make_inputs
    op = pk.load_operator(name)
    case = op.case("ragged")
    program = op.program(case.dims, case.params, dtype)
    v = propagate(program, make_inputs(program, case.inputs))["out"]
    right, off = (np.asarray(x).astype(numpy_dtype(dtype)) for x in (v.x, v.x * wrong))
    assert compare(v, dtype, right).ratio <= 1
    assert np.mean(error_ratio(v, dtype, off) > 1) > 0.5


@pk.operator
def remainders(x: pk.Tensor["N"], y: pk.Tensor["N"]):
    return x % (pk.abs(x) + 0.5), x % (y * 0.1), (x * 0.1) % y, x % y, pk.floor(x / (pk.abs(x) + 0.5)), (x * 0.1) % (y * y)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.3, 1.0, 7.0, 2.0**40, 3.1e12]), st.integers(-9, 9)), min_size=1))
def test_remainders_near_a_multiple_are_near_zero_or_near_the_divisor(pairs: list[tuple[float, int]]) -> None:
    x, y = (np.array(column, f32) for column in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        out = bounds_of(remainders, {"N": len(pairs)}, {"x": x, "y": y})[1]
        p, tenth = np.abs(x) + f32(0.5), f32(0.1)
        got = [x % p, x % (y * tenth), (x * tenth) % y, x % y, np.floor(x / p), (x * tenth) % (y * y)]
        for v, value in zip(out.values(), got, strict=True):
            assert compare(v, "f32", value).ratio <= 1, (x, y, value, v)


def test_remainders_away_from_multiples_are_bounded() -> None:
    x, y = np.array([5.5, -5.5, 6.0], f32), np.array([3.0, 3.0, 3.0], f32)
    out = bounds_of(remainders, {"N": 3}, {"x": x, "y": y})[1]
    np.testing.assert_array_less(np.abs(out["out3"].bound()), 1e-5)
    assert out["out1"].bound()[0] < 1e-5


@pk.operator
def mixed_by_scores(q: pk.Tensor["M", "D", pk.bf16], k: pk.Tensor["N", "D", pk.bf16], v: pk.Tensor["N", "D", pk.bf16]):
    return pk.cast(pk.softmax(pk.matmul(q, k.T, dtype=pk.f32) * 0.3), v.dtype) @ v


@pk.operator
def softmax_of_numbers(x: pk.Tensor["M", "N", pk.f32]):
    return pk.softmax(x)


def _scaled_first(s: np.ndarray, scale: float) -> np.ndarray:
    """Exponentials of ``s * scale`` less its rows' maxima, by one multiply-add each."""
    c = np.float64(f32(scale * np.log2(np.e)))
    top = (s * f32(scale)).astype(f32).max(1, keepdims=True)
    shift = (top * f32(np.log2(np.e))).astype(f32)
    with np.errstate(over="ignore"):
        return np.exp2((s * c - shift).astype(f32)).astype(f32)


@pytest.mark.parametrize("size", [1.0, 40.0, 1e6])
def test_attention_may_scale_scores_before_it_shifts_them(size: float) -> None:
    rng = np.random.default_rng(0)
    q, k, v = ((rng.standard_normal((n, 16)) * x).astype(bfloat16) for n, x in ((30, size), (40, size), (40, 1.0)))
    weights = _scaled_first(q.astype(f32) @ k.astype(f32).T, 0.3)
    with np.errstate(all="ignore"):
        out = (weights.astype(bfloat16).astype(f32) @ v.astype(f32) / weights.sum(1, keepdims=True)).astype(bfloat16)
    wanted = bounds_of(mixed_by_scores, {"M": 30, "N": 40, "D": 16}, {"q": q, "k": k, "v": v}, "bf16")[1]["out"]
    assert compare(wanted, "bf16", out).ratio <= 1


def test_the_softmax_of_large_numbers_may_not() -> None:
    x = (np.random.default_rng(0).standard_normal((4, 64)) + 3000).astype(f32)
    e = _scaled_first(x, 1.0)
    unnormalised = np.exp((x - x.max(1, keepdims=True)).astype(f32))
    wanted = bounds_of(softmax_of_numbers, {"M": 4, "N": 64}, {"x": x})[1]["out"]
    assert compare(wanted, "f32", (unnormalised / unnormalised.sum(1, keepdims=True)).astype(f32)).ratio <= 1
    assert compare(wanted, "f32", (e / unnormalised.sum(1, keepdims=True)).astype(f32)).ratio > 1


def test_expm1_of_large_numbers_is_as_exact_as_exp() -> None:
    x = np.linspace(20, 80, 500).astype(f32)
    by_powers = (np.exp2((x * f32(np.log2(np.e))).astype(f32).astype(np.float64)) - 1).astype(f32)

    @pk.operator
    def grown(x: pk.Tensor["N"]):
        return pk.expm1(x)

    wanted = bounds_of(grown, {"N": 500}, {"x": x})[1]["out"]
    assert compare(wanted, "f32", by_powers).ratio <= 1
    assert compare(wanted, "f32", by_powers * f32(1.0001)).ratio > 1
