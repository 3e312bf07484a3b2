"""Bounds of scans by functions of the operator's own: any grouping passes, wrong ones and wrong elements do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import portakern as pk
from portakern.check.bounds import propagate
from portakern.check.compare import error_ratio

pytestmark = pytest.mark.quick
N = 200
f32 = np.float32


@pk.operator
def recurrence(a: pk.Tensor["N"], b: pk.Tensor["N"]):
    def after(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    return pk.associative_scan(after, (a, b))[1]


@pk.operator
def sums(x: pk.Tensor["N"]):
    return pk.associative_scan(lambda a, b: a + b, x)


@pk.operator
def largest(x: pk.Tensor["N"]):
    def larger(left, right):
        return tuple(pk.where(right[0] > left[0], b, a) for a, b in zip(left, right, strict=True))

    return pk.associative_scan(larger, (x, pk.iota(x.shape, 0)))


def after(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first[0] * second[0], second[0] * first[1] + second[1]]).astype(f32)


def grouped(x: np.ndarray, join: Callable[[np.ndarray, np.ndarray], np.ndarray], size: int) -> np.ndarray:
    """Running values of the columns of ``x``, in groups of ``size`` that are joined to what came before them."""
    parts: list[np.ndarray] = []
    for begin in range(0, x.shape[1], size):
        run = [x[:, begin]]
        for i in range(begin + 1, min(begin + size, x.shape[1])):
            run.append(join(run[-1], x[:, i]))
        before = parts[-1] if parts else None
        parts += run if before is None else [join(before, r) for r in run]
    return np.stack(parts, 1)


@pytest.mark.parametrize("size", [1, 7, 32, N])
def test_every_grouping_passes_and_a_wrong_element_does_not(size: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, N).astype(f32), rng.standard_normal(N).astype(f32)
    want = propagate(recurrence.program({"N": N}, {}, "f32"), {"a": a, "b": b})["out"]
    got = grouped(np.stack([a, b]), after, size)[1]
    assert error_ratio(want, "f32", got).max() <= 1
    for wrong in (np.roll(got, 1), got * f32(1.001), np.concatenate([got[:-1], [0]])):
        assert error_ratio(want, "f32", wrong.astype(f32)).max() > 1


@pytest.mark.parametrize("size", [1, 5, 64])
def test_sums_that_cancel(size: int) -> None:
    x = np.random.default_rng(1).standard_normal((1, N)).astype(f32)
    x[:, 1::2] = -x[:, ::2] * f32(1 - 1e-6)
    want = propagate(sums.program({"N": N}, {}, "f32"), {"x": x[0]})["out"]
    got = grouped(x, lambda p, q: (p + q).astype(f32), size)[0]
    assert error_ratio(want, "f32", got).max() <= 1


def test_what_only_chooses_is_exact_and_knows_infinities() -> None:
    x = np.array([1, -np.inf, 3, np.inf, 2, np.inf], f32)
    value, place = propagate(largest.program({"N": 6}, {}, "f32"), {"x": x}).values()
    assert not value.bound().any() and not place.bound().any()
    assert value.x.tolist() == [1, 1, 3, np.inf, np.inf, np.inf] and place.x.tolist() == [0, 0, 2, 3, 3, 3]


def test_an_infinity_that_may_meet_a_zero_leaves_open_what_follows() -> None:
    a, b = np.full(8, 0.5, f32), np.ones(8, f32)
    a[3], a[4] = 0, np.inf
    out = propagate(recurrence.program({"N": 8}, {}, "f32"), {"a": a, "b": b})["out"]
    assert out.open().tolist() == [False] * 4 + [True] * 4
    a[4], b[4] = 0.5, np.nan
    out = propagate(recurrence.program({"N": 8}, {}, "f32"), {"a": a, "b": b})["out"]
    assert np.isnan(out.x[4:]).all() and not out.open().any()
