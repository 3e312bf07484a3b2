"""The header's own functions against float64, in units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.rocm.helpers import kernel, needs_clang, run

FUNCTIONS = {  # name -> (numpy, range, allowed ulp)
    "exp": (np.exp, (-87, 88), 2),
    "exp2": (np.exp2, (-126, 127), 2),
    "log": (np.log, (1e-30, 1e30), 2),
    "log2": (np.log2, (1e-30, 1e30), 2),
    "log1p": (np.log1p, (-0.99, 50), 4),
    "expm1": (np.expm1, (-20, 80), 4),
    "sqrt": (np.sqrt, (0, 1e30), 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-30, 1e30), 2),
    "tanh": (np.tanh, (-12, 12), 4),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-80, 80), 4),
    "erf": (np.vectorize(math.erf), (-6, 6), 4),
    "sin": (np.sin, (-1e4, 1e4), 1),
    "cos": (np.cos, (-1e4, 1e4), 1),
    "floor": (np.floor, (-9, 9), 0),
    "ceil": (np.ceil, (-9, 9), 0),
    "round": (np.round, (-9, 9), 0),
    "sign": (np.sign, (-9, 9), 0),
}
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1e-40,
        3e38,
        -3e38,
        1e-8,
        2.5,
        3.5,
        0.55,
        0.93,
        1e10,
        -3e15,
        2e22,
    ]
)
COUNT = 4096

TEXT = """#include "pk/pk.h"
extern "C" __global__ void kernel(const {type}* x, {type}* y) {{
  const int i = blockIdx.x * 64 + threadIdx.x;
  y[i] = pk::{name}(x[i]);
}}
"""


def samples(low: float, high: float, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    even = rng.uniform(low, high, COUNT - SPECIAL.size - 1000)
    small = rng.standard_normal(1000) * 10.0 ** rng.uniform(-10, 0, 1000)
    small = np.abs(small) if low >= 0 else np.clip(small, low, high)
    with np.errstate(over="ignore"):
        return np.concatenate([SPECIAL, even, small]).astype(dtype)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    unit = np.spacing(np.maximum(np.abs(want.astype(got.dtype)), np.finfo(got.dtype).tiny).astype(got.dtype))
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(got.astype(np.longdouble) - want) / unit
    same = (np.isnan(got) & np.isnan(want)) | (got == want.astype(got.dtype))
    return np.where(same, 0, np.where(np.isnan(gap), np.inf, gap))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_floats_errs_by_a_few_ulp(name: str) -> None:
    needs_clang()
    reference, (low, high), allowed = FUNCTIONS[name]
    x = samples(low, high, "float32")
    got = run(
        kernel("gfx942", TEXT.format(type="float", name=name), {"x": ((COUNT,), "f32")}, {"y": ((COUNT,), "f32")}, COUNT // 64),
        x,
    )
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    worst = ulps(got, want)
    assert worst.max() <= allowed, f"{name}({x[worst.argmax()]!r}) is {got[worst.argmax()]!r}, not {want[worst.argmax()]!r}"


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log1p", "expm1", "tanh", "sigmoid", "erf", "sin", "cos"])
def test_a_function_of_doubles_errs_by_little(name: str) -> None:
    needs_clang()
    reference, (low, high), _ = FUNCTIONS[name]
    x = samples(low, high, "float64")
    got = run(
        kernel(
            "gfx942", TEXT.format(type="double", name=name), {"x": ((COUNT,), "f64")}, {"y": ((COUNT,), "f64")}, COUNT // 64
        ),
        x,
    )
    with np.errstate(all="ignore"):
        want = reference(x)
    worst = ulps(got, want)
    assert worst.max() <= 64, f"{name}({x[worst.argmax()]!r}) is {got[worst.argmax()]!r}, not {want[worst.argmax()]!r}"


PAIRS = """#include "pk/pk.h"
extern "C" __global__ void kernel(const float* a, const float* b, float* y) {{
  const int i = blockIdx.x * 64 + threadIdx.x;
  y[i] = pk::{name}(a[i], b[i]);
}}
"""


@pytest.mark.parametrize("name", ["max", "min", "pow", "rem", "floordiv"])
def test_functions_of_two_floats(name: str) -> None:
    needs_clang()
    reference = {"max": np.maximum, "min": np.minimum, "pow": np.power, "rem": np.remainder, "floordiv": np.floor_divide}[name]
    rng = np.random.default_rng(2)
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 3.0, -3.0]
    a, b = (x.ravel() for x in np.meshgrid(special, special))
    if name in ("rem", "floordiv"):  # what numpy makes of infinite dividends and zero divisors is its own
        keep = np.isfinite(a) & np.isfinite(b) & (b != 0)
        a, b = a[keep], b[keep]
    a, b = (np.concatenate([x, rng.uniform(-9, 9, 512 - x.size)]).astype("f4") for x in (a, b))
    got = run(
        kernel("gfx942", PAIRS.format(name=name), {"a": ((512,), "f32"), "b": ((512,), "f32")}, {"y": ((512,), "f32")}, 8), a, b
    )
    with np.errstate(all="ignore"):
        want = reference(a.astype(np.float64), b.astype(np.float64))
    worst = ulps(got, want)
    n = worst.argmax()
    assert worst[n] <= (1 if name == "pow" else 0), f"{name}({a[n]!r}, {b[n]!r}) is {got[n]!r}, not {want[n]!r}"
