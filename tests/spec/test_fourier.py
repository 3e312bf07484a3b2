"""Fourier transforms as products: numpy's, of sizes with small and large prime factors, along any axis."""

from __future__ import annotations

import numpy as np
import pytest

import portakern as pk
from portakern.errors import SpecError
from portakern.ir.oracle import evaluate
from portakern.spec.fourier import WIDEST, cut, factors

pytestmark = pytest.mark.quick
SIZES = (1, 2, 3, 8, 67, 96, 134, 1000, 6561)
T = pk.Tensor


@pk.operator
def transforms(x: T["M", "N", 2], y: T["M", "N", 2]):
    return *pk.fft(x, y, axis=1), *pk.ifft(x, y, axis=1), *pk.rfft(x, axis=-2)


@pk.operator
def back(x: T["M", "K"], y: T["M", "K"], n: int = 1):
    return pk.irfft(x, y, n)


def test_a_size_is_cut_into_few_products() -> None:
    for n in (*SIZES, 4096, 2 * 67 * 67, 2**20):
        steps = cut(n)
        assert np.prod(steps) == n and max(steps) <= max(WIDEST, factors(n)[-1])
    assert (cut(64), cut(128), cut(4096), cut(134)) == ([64], [16, 8], [64, 64], [67, 2])


@pytest.mark.parametrize("n", SIZES)
def test_transforms_are_numpy_s(n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, 2, n, 2))
    got = list(evaluate(transforms.program({"M": 2, "N": n}, {}, "f64"), {"x": x, "y": y}).values())
    z = x + 1j * y
    for k, want in enumerate((np.fft.fft(z, axis=1), np.fft.ifft(z, axis=1), np.fft.rfft(x, axis=1))):
        np.testing.assert_allclose(got[2 * k] + 1j * got[2 * k + 1], want, atol=1e-12 * np.abs(want).max())
    half = z[:, : n // 2 + 1, 0]
    (line,) = evaluate(back.program({"M": 2, "K": n // 2 + 1}, {"n": n}, "f64"), {"x": half.real, "y": half.imag}).values()
    np.testing.assert_allclose(line, np.fft.irfft(half, n), atol=1e-12)


@pytest.mark.parametrize(("dims", "params", "message"), [
    ({"M": 2, "K": 5}, {"n": 12}, "irfft of 5 frequencies into 12 elements"),
    ({"M": 2}, {}, "open dim"),
    ({"M": 2, "K": 46349 // 2 + 1}, {"n": 46349}, "multiple of the prime 46349"),
])  # fmt: skip
def test_what_is_refused_is_said(dims: dict, params: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        back.program(dims, params, "f32")
