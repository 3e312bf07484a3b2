"""The oracle, operation by operation, against formulas said another way."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portakern.errors import IRError
from portakern.ir import tensor as t
from portakern.ir.core import Arg, Block, Op, Result, Yield
from portakern.ir.functions import erf
from portakern.ir.oracle import evaluate, philox, round_to
from portakern.ir.size import Sym
from portakern.ir.tensor import TensorProgram, TensorType

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(0)


def run(build, *arrays: np.ndarray, dtypes: tuple[str, ...] | None = None) -> np.ndarray:
    """The result of the operation that ``build`` makes of arguments holding ``arrays``."""
    names = "abc"[: len(arrays)]
    kinds = dtypes or tuple("i32" if a.dtype.kind in "iu" else "f32" for a in arrays)
    args = tuple(Arg(n, TensorType(a.shape, d)) for n, a, d in zip(names, arrays, kinds, strict=True))
    made: Op | tuple[Op, ...] = build(*args)
    ops = made if isinstance(made, tuple) else (made,)
    program = TensorProgram("f", Block(args, (*ops, Yield((ops[-1],)))), ("out",))
    return evaluate(program, dict(zip(names, arrays, strict=True)))["out"]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# ---- rounding


@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [
        ("f32", np.float32),
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("f8e4m3", ml_dtypes.float8_e4m3fn),
        ("f8e5m2", ml_dtypes.float8_e5m2),
        ("f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
        ("f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
    ],
)
@given(numbers=st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_rounding_is_that_of_the_storage_types(dtype: str, numpy, numbers: list[float]) -> None:
    x = np.array(numbers, np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(round_to(x.astype(np.float64), dtype), x.astype(numpy).astype(np.float64))


def test_rounding_from_float64_happens_once() -> None:
    tie = 1 + 2.0**-8 + 2.0**-40  # just above the middle of two bf16 numbers; in f32 it is the middle
    assert round_to(np.array([tie]), "bf16")[0] == 1 + 2.0**-7


def test_erf_is_accurate() -> None:
    x = np.linspace(-7, 7, 4001)
    np.testing.assert_allclose(erf(x), [math.erf(v) for v in x], rtol=0, atol=2e-15)
    np.testing.assert_array_equal(erf(np.array([np.inf, -np.inf, 0.0, np.nan])), [1, -1, 0, np.nan])


# ---- views and moves


def test_views_and_moves() -> None:
    x = normal(3, 4, 5)
    np.testing.assert_array_equal(run(lambda a: t.Expand(a, (2, 3, 4, 5, 7), (1, 2, 3)), x)[1, ..., 6], x)
    np.testing.assert_array_equal(run(lambda a: t.Slice(a, (1, 0, 4), (3, 4, 5), (1, 2, 1)), x), x[1:3, ::2, 4:5])
    np.testing.assert_array_equal(run(lambda a: t.PadWith(a, (1, 0, 2), (0, 1, 0), 7.0), x)[0], np.full((5, 7), 7))
    np.testing.assert_array_equal(run(lambda a: t.Flip(a, (0, 2)), x), x[::-1, :, ::-1])
    np.testing.assert_array_equal(run(lambda a, b: t.Concat((a, b), 1), x, x), np.concatenate([x, x], 1))
    np.testing.assert_array_equal(run(lambda a: t.Iota((2, 3), 1), x), [[0, 1, 2]] * 2)


def test_integers_wrap_in_their_own_width() -> None:
    x = np.array([2**31 - 1], np.int32)
    assert run(lambda a: t.Map("add", (a, a)), x)[0] == -2


def test_conversions() -> None:
    x = np.array([-1.7, 1.7, 2.5], np.float32)
    assert run(lambda a: t.Convert(a, "i32"), x).tolist() == [-1, 1, 2]
    assert run(lambda a: t.Convert(a, "bool"), x).tolist() == [True] * 3
    assert run(lambda a: t.BitConvert(a, "u32"), x).tolist() == x.view(np.uint32).tolist()


# ---- reductions


@pytest.mark.parametrize(("fn", "identity"), [("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)])
def test_reductions_of_nothing_give_the_identity(fn: str, identity: float) -> None:
    assert (run(lambda a: t.Fold(fn, a, (1,)), normal(3, 0)) == identity).all()


def test_running_reductions_in_all_directions() -> None:
    x = normal(2, 5)
    assert run(lambda a: t.Cumulate("sum", a, 1), x) == pytest.approx(np.cumsum(x, 1, dtype=float))
    assert run(lambda a: t.Cumulate("max", a, 1, True), x).tolist() == np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1].tolist()
    exclusive = run(lambda a: t.Cumulate("sum", a, 1, False, True), x)
    assert exclusive[:, 0].tolist() == [0, 0]
    assert exclusive[:, 1:] == pytest.approx(np.cumsum(x, 1, dtype=float)[:, :-1])
    assert run(lambda a: t.Cumulate("prod", a, 1, False, True), normal(2, 0)).shape == (2, 0)


def test_arg_reductions_take_the_first_of_equals() -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]], np.float32)
    assert run(lambda a: t.ArgFold("max", a, 1), x).tolist() == [1, 0]
    assert run(lambda a: t.ArgFold("min", a, 0), x).tolist() == [0, 1, 1]


def test_windows() -> None:
    x = normal(1, 7, 2)
    got = run(lambda a: t.WindowFold("max", a, (1, 3, 1), (1, 2, 1), (0, 1, 0), (0, 1, 0), (1, 2, 1)), x)
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=-np.inf)
    want = [[max(padded[0, 2 * i + 2 * k, c] for k in range(3)) for c in range(2)] for i in range(3)]
    assert got.tolist() == [pytest.approx(np.array(want))]


# ---- contractions


def test_contraction_pairs_dims_in_any_place() -> None:
    a, b = normal(4, 2, 5, 3), normal(5, 6, 4)
    got = run(lambda x, y: t.Contract(x, y, (0,), (2,), (2,), (0,), "f32"), a, b)
    np.testing.assert_allclose(got, np.einsum("bmkn,kpb->bmnp", a.astype(float), b.astype(float)))


def test_integer_products_are_summed_exactly() -> None:
    a = np.full((1, 4), 2**20, np.int32)
    assert run(lambda x, y: t.Contract(x, y, (), (), (1,), (1,), "i64"), a, a).item() == 4 * 2**40


def naive_convolution(x, w, stride, low, high, dilation, groups):
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), *zip(low, high, strict=True), (0, 0)])
    shape = [(x.shape[1 + i] - dilation[i] * (w.shape[i] - 1) - 1) // stride[i] + 1 for i in range(n)]
    out = np.zeros((x.shape[0], *shape, w.shape[-1]))
    c, o = w.shape[-2], w.shape[-1] // groups
    for place in itertools.product(*map(range, (x.shape[0], *shape, w.shape[-1]))):
        batch, spatial, channel = place[0], place[1:-1], place[-1]
        g = channel // o
        for tap in itertools.product(*map(range, w.shape[:n])):
            at = tuple(s * st + k * d for s, st, k, d in zip(spatial, stride, tap, dilation, strict=True))
            out[place] += x[(batch, *at)][g * c : (g + 1) * c].astype(float) @ w[(*tap, slice(None), channel)].astype(float)
    return out


@pytest.mark.parametrize(
    ("spatial", "window", "stride", "low", "high", "dilation", "groups"),
    [
        ((9,), (3,), (1,), (0,), (0,), (1,), 1),
        ((9,), (3,), (2,), (1,), (2,), (2,), 2),
        ((6, 7), (3, 2), (1, 2), (1, 0), (1, 1), (1, 1), 1),
        ((6, 7), (2, 2), (1, 1), (0, 0), (0, 0), (2, 3), 4),
        ((4, 5, 3), (2, 2, 2), (2, 1, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1), 2),
    ],
)
def test_convolution(spatial, window, stride, low, high, dilation, groups) -> None:
    x, w = normal(2, *spatial, 4), normal(*window, 4 // groups, 8)
    got = run(lambda a, b: t.Convolve(a, b, stride, low, high, dilation, groups, "f32"), x, w)
    np.testing.assert_allclose(got, naive_convolution(x, w, stride, low, high, dilation, groups), atol=1e-12)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolutions_of_narrow_integers_are_summed_in_wide_ones(dtype: str, groups: int) -> None:
    rng, (lo, hi) = np.random.default_rng(0), {"i8": (-128, 128), "u8": (0, 256), "i16": (-(1 << 15), 1 << 15)}[dtype]
    x, w = (rng.integers(lo, hi, shape) for shape in ((2, 6, 5, 4), (3, 2, 4 // groups, 8)))
    around = (2, 1), (1, 0), (1, 1), (1, 2)
    got = run(lambda a, b: t.Convolve(a, b, *around, groups, "i32"), x, w, dtypes=(dtype, dtype))
    wide = naive_convolution(x, w, *around, groups).astype(np.int64)
    np.testing.assert_array_equal(got, wide.astype(np.int32))
    back = run(lambda a, b: t.Convolve(a, b, *around, groups, "i32", True), x, w, dtypes=(dtype, dtype))
    floats = x.astype(np.float64), w.astype(np.float64)
    same = run(lambda a, b: t.Convolve(a, b, *around, groups, "f64", True), *floats, dtypes=("f64", "f64"))
    np.testing.assert_array_equal(back, same.astype(np.int64).astype(np.int32))


@pytest.mark.parametrize(("stride", "low", "dilation"), [((1,), (0,), (1,)), ((2,), (1,), (1,)), ((3,), (0,), (2,))])
def test_transposed_convolution_is_the_adjoint(stride, low, dilation) -> None:
    """<conv(x), y> == <x, conv_transposed(y)> with the channels of w exchanged."""
    w, y = normal(3, 2, 4), normal(1, 6, 4)
    size = (6 - 1) * stride[0] - 2 * low[0] + dilation[0] * 2 + 1
    x = normal(1, size, 2)
    forward = run(lambda a, b: t.Convolve(a, b, stride, low, low, dilation, 1, "f32"), x, w)
    back = run(lambda a, b: t.Convolve(a, b, stride, low, low, dilation, 1, "f32", True), y, w.swapaxes(1, 2).copy())
    assert back.shape == x.shape
    assert np.sum(forward * y) == pytest.approx(np.sum(x * back))


# ---- data-dependent moves


def test_gathers_fill_what_is_outside() -> None:
    x, i = normal(3, 4), np.array([[0, 3], [-1, 2]], np.int32)
    got = run(lambda a, b: t.Gather(a, b, 0, False, 9.0), x, i)
    np.testing.assert_array_equal(got[0, 0], x[0])
    np.testing.assert_array_equal(got[1, 1], x[2])
    assert (got[0, 1] == 9).all()
    assert (got[1, 0] == 9).all()
    zipped = run(lambda a, b: t.Gather(a, b, 1, True, 9.0), x, np.array([[0], [3], [4]], np.int32))
    np.testing.assert_array_equal(zipped[:, 0], [x[0, 0], x[1, 3], 9])


def test_scatters_drop_what_is_outside() -> None:
    x, i, u = np.zeros((4,), np.float32), np.array([1, 1, 7, 3], np.int32), np.array([1, 2, 4, 8], np.float32)
    assert run(lambda a, b, c: t.Scatter(a, b, c, 0, "add"), x, i, u).tolist() == [0, 3, 0, 8]
    assert run(lambda a, b, c: t.Scatter(a, b, c, 0, "max"), x, i, u).tolist() == [0, 2, 0, 8]
    assert run(lambda a, b, c: t.Scatter(a, b, c, 0, "set"), x, i, u).tolist() == [0, 2, 0, 8]


def test_sorting_is_stable_in_both_directions() -> None:
    x = np.array([[2.0, 1.0, 2.0, 3.0]], np.float32)

    def order(descending: bool, count: int = 0):
        def build(a: Arg) -> tuple[Op, ...]:
            both = t.Sort(a, 1, descending, count)
            return both, Result(both, 1)

        return run(build, x).tolist()

    assert order(False) == [[1, 0, 2, 3]]
    assert order(True) == [[3, 0, 2, 1]]
    assert order(True, 2) == [[3, 0]]


def test_random_bits_are_philox_s() -> None:
    """The known answer of Random123 for counter and key zero."""
    assert [hex(v) for v in philox(0, 4)] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    assert philox(7, 10).tolist() == philox(7, 12).tolist()[:10]


# ---- what it refuses


def test_open_dims_and_wrong_inputs_are_refused() -> None:
    x = Arg("x", TensorType((Sym.named("M"),), "f32"))
    program = TensorProgram("f", Block((x,), (Yield((x,)),)), ("out",))
    with pytest.raises(IRError, match="needs a value for M"):
        evaluate(program, {"x": normal(3)})
    with pytest.raises(IRError, match="no input is given for x"):
        evaluate(program, {})
