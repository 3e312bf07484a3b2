"""The header's own functions against double precision, in units in the last place of float."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace

import numpy as np
import pytest

from portakern.backend import Source
from portakern.registry import registry

# function -> (largest error in units in the last place, lowest and highest argument)
LIMITS = {
    "exp": (1.5, -103.0, 88.7), "tanh": (2.5, -12.0, 12.0), "erf": (2.0, -5.0, 5.0), "log": (1.5, 1e-40, 3e38),
    "sigmoid": (3.5, -80.0, 80.0), "rsqrt": (1.5, 1e-30, 1e30), "sqrt": (0.51, 0.0, 1e30),
}  # fmt: skip
EXACT = {
    "exp": np.exp, "tanh": np.tanh, "erf": np.vectorize(math.erf), "log": np.log, "sqrt": np.sqrt,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


LOOP = "for (int64_t i = 0; i < n; ++i)"


@pytest.fixture(scope="module")
def library():
    language, target = registry().language("cpp"), registry().target("cpp:cpu")
    loops = "".join(
        f'extern "C" void v_{f}(const float* x, float* y, int64_t n) {{\n    PK_VECTORISE\n'
        f"    for (int64_t i = 0; i < n; ++i) y[i] = pk::{f}(x[i]);\n}}\n" for f in LIMITS
    )
    halves = "".join(
        f'extern "C" void to_{t}(const float* x, pk::{t}* y, int64_t n) {{ {LOOP} y[i] = pk::{t}(x[i]); }}\n'
        f'extern "C" void from_{t}(const pk::{t}* x, float* y, int64_t n) {{ {LOOP} y[i] = float(x[i]); }}\n'
        for t in ("f16", "bf16")
    )
    from portakern.backends.cpu.cpp.emitter import CppEmitter
    from portakern.emit.clike import reached

    text = '#include "pk/math.hpp"\n' + loops + halves
    source = Source(target, "math", "v_exp", text, ".cpp", (), headers=reached(["pk/math.hpp"], CppEmitter().library()))
    assert language.toolchain is not None
    return source, language.toolchain.compile(source), language.runtime


def call(library, name: str, x: np.ndarray, out: np.dtype) -> np.ndarray:
    source, binary, runtime = library
    function = runtime.load(replace(source, entry=name), binary).function
    y = np.empty(x.shape, out)
    function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(x.size))
    return y


@pytest.mark.parametrize("name", LIMITS)
def test_error(name: str, library) -> None:
    limit, low, high = LIMITS[name]
    rng = np.random.default_rng(1)
    x = rng.uniform(low, high, 200_000)
    if low > 0:
        x = np.exp(rng.uniform(np.log(low), np.log(high), 200_000))
    x = np.concatenate([x, rng.standard_normal(50_000) * 0.5 + (2 if low >= 0 else 0)]).astype(np.float32)
    x = x[(x >= low) & (x <= high)]
    have = call(library, f"v_{name}", x, np.dtype(np.float32)).astype(np.float64)
    want = EXACT[name](x.astype(np.float64))
    unit = np.maximum(np.spacing(np.abs(want).astype(np.float32)), np.float32(2.0**-149)).astype(np.float64)
    error = np.abs(have - want) / unit
    assert error.max() <= limit, f"{error.max():.2f} units at {x[error.argmax()]!r}"


@pytest.mark.parametrize(("name", "x", "want"), [
    ("exp", [-np.inf, np.inf, np.nan, 0.0, 89.0, -110.0], [0.0, np.inf, np.nan, 1.0, np.inf, 0.0]),
    ("tanh", [-np.inf, np.inf, np.nan, 0.0, -0.0], [-1.0, 1.0, np.nan, 0.0, -0.0]),
    ("erf", [-np.inf, np.inf, np.nan, 0.0, 10.0], [-1.0, 1.0, np.nan, 0.0, 1.0]),
    ("log", [0.0, -1.0, np.inf, np.nan, 1.0], [-np.inf, np.nan, np.inf, np.nan, 0.0]),
    ("sigmoid", [-np.inf, np.inf, np.nan, 0.0], [0.0, 1.0, np.nan, 0.5]),
])  # fmt: skip
def test_special_values(name: str, x: list[float], want: list[float], library) -> None:
    have = call(library, f"v_{name}", np.array(x * 8, np.float32), np.dtype(np.float32))[: len(x)]
    assert np.array_equal(have, np.array(want, np.float32), equal_nan=True), have


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_conversions_are_exact_or_nearest_even(name: str, library) -> None:
    import ml_dtypes

    kind = np.dtype(np.float16 if name == "f16" else ml_dtypes.bfloat16)
    every = np.arange(2**16, dtype=np.uint16).view(kind)
    back = call(library, f"from_{name}", every, np.dtype(np.float32))
    assert np.array_equal(back, every.astype(np.float32), equal_nan=True)
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        ties = (every.astype(np.float32)[:-1] + every.astype(np.float32)[1:]) / 2
    edges = np.array([65519.0, 65520.0, 65504.0, 2**-24, 2**-25, 1.5 * 2**-25, 3.4e38, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([bits, ties.astype(np.float32), edges, rng.standard_normal(10_000).astype(np.float32)])
    with np.errstate(all="ignore"):
        want = x.astype(kind)
    have = call(library, f"to_{name}", x, kind)
    assert np.array_equal(have.astype(np.float32), want.astype(np.float32), equal_nan=True)
