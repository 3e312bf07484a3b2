"""Bytes of arrays: alike or not, how many elements differ, and digests that tell them apart."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from portakern.check import alike
from portakern.check.alike import count_of_differences, digest_of, same_bytes

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "PIECE", 64)
    monkeypatch.setattr(alike, "LARGE", 256)


@pytest.mark.parametrize("dtype", [np.float32, bfloat16, np.int8, np.float64])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (7, 31), (3, 5, 40)])
def test_one_byte_makes_a_difference(shape: tuple[int, ...], dtype: type) -> None:
    x = np.zeros(shape, dtype)
    assert same_bytes(x, x.copy()) and count_of_differences(x, x.copy()) == 0 and digest_of(x) == digest_of(x.copy())
    for place in (0, x.size // 2, x.size - 1) if x.size else ():
        y = x.copy()
        y.reshape(-1).view(np.uint8)[(place + 1) * x.itemsize - 1] = 0x80  # -0 of floats, which equals 0
        assert not same_bytes(x, y) and count_of_differences(x, y) == 1
        assert digest_of(x) != digest_of(y)


def test_views_count_by_their_elements() -> None:
    x = np.arange(600, dtype=np.int32).reshape(20, 30)
    assert same_bytes(x.T, x.T.copy()) and not same_bytes(x.T, x.reshape(30, 20))


def test_equal_elements_that_change_places_change_the_digest_of_a_large_array() -> None:
    x = np.arange(600, dtype=np.float32)
    y = x.copy()
    y[[3, 9]] = y[[9, 3]]
    assert digest_of(x) != digest_of(y)


def test_nan_is_alike() -> None:
    x = np.full(100, np.nan, np.float32)
    assert same_bytes(x, x.copy()) and count_of_differences(x, -x) == 100
