"""x * y + z rounded once, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from portakern.backends.triton.interpret.fused import fused

pytestmark = pytest.mark.quick


def exact(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> list[Fraction]:
    return [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_ones_are_rounded_once(dtype: type) -> None:
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(4000).astype(dtype) for _ in range(3))
    z[::2] = -(x * y)[::2]  # what is left is what rounding twice loses
    z[1::4] = (x * y)[1::4] * dtype(2**-11 if dtype is np.float16 else 2**-24)
    found = fused(x, y, z)
    assert found.dtype == dtype
    spacing = np.spacing(np.abs(found)).astype(np.float64)
    for have, want, unit in zip(found, exact(x, y, z), spacing, strict=True):
        off = abs(Fraction(float(have)) - want)
        assert off <= Fraction(float(unit)) / 2
        assert off < Fraction(float(unit)) / 2 or have.view("u2" if dtype is np.float16 else "u4") % 2 == 0


def test_remainders_are_exact() -> None:
    rng = np.random.default_rng(1)
    d = rng.uniform(0.1, 10.0, 500)
    r = rng.standard_normal(500) * 1e30
    q = np.trunc(r / d)
    q[::3] = np.trunc(q[::3] / 2**10)
    want = exact(-q, d, r)
    found = fused(-q, d, r)
    same = [Fraction(float(f)) == w for f, w in zip(found, want, strict=True) if Fraction(float(w)) == w]
    assert len(same) > 100
    assert all(same)


def test_what_is_not_finite() -> None:
    x = np.array([np.inf, np.nan, 1.0, 3e38], np.float32)
    y = np.array([1.0, 1.0, np.inf, 3e38], np.float32)
    z = np.array([-np.inf, 0.0, 1.0, 0.0], np.float32)
    np.testing.assert_array_equal(fused(x, y, z), np.array([np.nan, np.nan, np.inf, np.inf], np.float32))
