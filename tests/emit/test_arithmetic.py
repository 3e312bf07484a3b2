"""What a value is does not depend on where it is computed, and remainders and 8-bit floats are those of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portakern.dtypes import numpy_dtype
from portakern.ir.oracle import round_to
from portakern.registry import registry
from portakern.study import steps
from portakern.tools.workers import WorkerPool

TARGETS = ["cpp:cpu", "numba:cpu", "opencl:cpu", "sycl:cpu", "hip:gfx942", "triton:gfx950", "triton:sm_90", "cuda:sm_80",
           "pallas:v5e"]  # fmt: skip


@pytest.fixture(scope="module", params=TARGETS)
def on(request: pytest.FixtureRequest):
    """Runs one of the operators on a target: ``on(name, dims, inputs, dtype)``."""
    target = registry().target(request.param)
    language = registry().language(target.language)
    runner, detail = steps.runner_for(language, target)
    if not runner or (language.toolchain is not None and not language.toolchain.available(target)):
        pytest.skip(detail or f"nothing compiles for {target} here")
    with WorkerPool(1, env=steps.run_environment(target, runner)) as pool:

        def run(name: str, dims: dict[str, int], inputs: dict[str, Any], dtype: str = "f32") -> dict[str, np.ndarray]:
            return pool.call("tests.emit.arithmetic:run", name, request.param, dims, inputs, dtype, timeout_s=240)

        run.target = request.param  # type: ignore[attr-defined]
        yield run


@pytest.mark.parametrize(("name", "columns"), [
    ("tempered", 70), pytest.param("tempered_by_constant", 70, marks=pytest.mark.slow),
    pytest.param("tempered", 20000, marks=pytest.mark.slow), ("tempered_by_constant", 20000),
])  # fmt: skip
def test_a_maximum_of_products_and_the_products_less_it_are_rounded_alike(on: Any, name: str, columns: int) -> None:
    """Fused, the largest product less itself is its rounding error, of which the exponential is infinite."""
    x = (np.random.default_rng(0).standard_normal((3, columns)) * 2.0**40).astype(np.float32)
    more = {"tau": np.asarray(0.37, np.float32)} if name == "tempered" else {}
    out = on(name, {"M": 3, "N": columns}, {"x": x, **more})["out"]
    np.testing.assert_array_equal(out, (x == x.max(-1, keepdims=True)).astype(np.float32))


def floats(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    some = [0.0, -0.0, 1.0, -1.0, 0.7, -0.7, 1e8, -1e8, 3e38, -3e38, 5.5, -5.5, np.inf, -np.inf, np.nan, 16777215.0, 2.0**40]
    x, y = (v.ravel() for v in np.meshgrid(some, some))
    rng = np.random.default_rng(0)
    x = np.concatenate([x, rng.standard_normal(60) * 10.0 ** rng.integers(-10, 30, 60)])
    return x.astype(numpy_dtype(dtype)), np.concatenate([y, rng.standard_normal(60)]).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_remainders_of_large_numbers(on: Any, dtype: str) -> None:
    if on.target == "pallas:v5e" and dtype == "f64":
        pytest.skip("TPUs have no f64")
    x, y = floats(dtype)
    with np.errstate(all="ignore"):
        want = np.remainder(x, y)
    np.testing.assert_allclose(on("remainders", {"N": x.size}, {"x": x, "y": y}, dtype)["out"], want, rtol=4e-7)


@pytest.mark.parametrize("dtype", ["i32", "i8", "u8"])
def test_divisions_of_integers(on: Any, dtype: str) -> None:
    of = np.iinfo(numpy_dtype(dtype))
    some = np.array([0, 1, 2, 3, 7, 100, of.max, of.max - 1, of.min, of.min + 1, *([-1, -2, -7] if of.min else [])], of.dtype)
    x, y = (v.ravel() for v in np.meshgrid(some, some[some != 0]))
    with np.errstate(all="ignore"):
        want = (x % y, x // y)
    for got, right in zip(on("divisions", {"N": x.size}, {"x": x, "y": y}, dtype).values(), want, strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_every_8_bit_float_and_what_rounds_to_it(on: Any, name: str) -> None:
    if on.target not in ("triton:sm_90", "pallas:v5e"):
        pytest.skip("the device has no such floats, or tests of its own")
    bits = np.arange(256, dtype=np.uint8).view(numpy_dtype(f"f8{name}"))
    wide = bits.astype(np.float32)
    np.testing.assert_array_equal(on(f"from_{name}", {"N": 256}, {"x": bits})["out"], wide)
    every = np.unique(wide[np.isfinite(wide)])
    middle = (every[1:] + every[:-1]) / 2
    large = np.array([463, 464, 465, 480, 1e4, 57345, 61439, 61440, 61441, 1e30, np.inf, np.nan, 2.0**-20], np.float32)
    beside = [np.nextafter(middle, np.float32(end)) for end in (9e9, -9e9)]
    x = np.concatenate([every, middle, *beside, large, -large])
    got = on(f"to_{name}", {"N": x.size}, {"x": x})["out"].astype(np.float64)
    np.testing.assert_array_equal(got, round_to(x.astype(np.float64), f"f8{name}"))
