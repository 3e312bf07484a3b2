"""Bounds of large arrays, slab by slab: those of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.check.adversarial import adversarial_inputs
from portakern.check.bounds import propagate, slabs
from portakern.check.bounds.slabs import in_slabs
from portakern.check.bounds.value import Val
from portakern.spec.inputs import make_inputs
from portakern.spec.operator import Operator

T = pk.Tensor


@pk.operator
def rows(x: T["M", "N"], y: T["M", "N"]):
    z = pk.exp(x - pk.max(x, axis=1, keepdims=True)) / (pk.abs(y) + 0.5)
    return pk.cast(z, pk.bf16), pk.where(x > y, pk.sqrt(x * y), pk.cast(pk.cast(x, pk.i32), x.dtype))


@pk.operator
def layers(x: T["M", "K"], w: T["K", "N"], b: T["N"]):
    y = pk.relu(x @ w + b)
    return pk.tanh(y * y - pk.mean(y, axis=0))


@pytest.mark.parametrize("kind", ["values", "nonfinite", "large", "zeros"])
@pytest.mark.parametrize("op", [rows, layers], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_bounds_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, op: Operator, kind: str, dtype: str) -> None:
    program = op.program({"M": 6, "N": 15, **({"K": 9} if op is layers else {})}, {}, dtype)
    inputs = make_inputs(program) if kind == "values" else adversarial_inputs(kind, program, {}, 0)
    whole = propagate(program, inputs)
    monkeypatch.setattr(slabs, "LARGE", 8)
    monkeypatch.setattr(slabs, "SLAB", 4)
    for name, cut in propagate(program, inputs).items():
        np.testing.assert_array_equal(cut.x, whole[name].x)
        np.testing.assert_array_equal(cut.bound(), whole[name].bound())


@pytest.mark.parametrize("shape", [(16,), (3, 5), (2, 3, 4), (7, 1, 1), (1, 64)])
def test_slabs_are_all_of_an_array_once(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    monkeypatch.setattr(slabs, "SLAB", 6)
    seen = np.zeros(shape, int)
    for place in slabs.slabs(shape):
        assert 0 < seen[place].size <= 6
        seen[place] += 1
    assert (seen == 1).all()


@dataclass(frozen=True)
class Two:
    a: Val
    b: Any


def test_what_differs_between_slabs_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is 0 in the first slab, a mask that only one has, and arrays that are one in some of them."""
    monkeypatch.setattr(slabs, "LARGE", 1)
    monkeypatch.setattr(slabs, "SLAB", 3)
    x = np.arange(12.0)

    def of(v: np.ndarray) -> Two:
        wrong = v > 7
        e = np.where(wrong, 1.0, 0.0) if wrong.any() else 0.0
        return Two(Val(v, e, overflown=wrong if wrong.all() else None, cancels=bool(wrong.any())), v if v[0] < 6 else v + 1)

    found = in_slabs(of, (x,), x.shape)
    np.testing.assert_array_equal(found.a.x, x)
    np.testing.assert_array_equal(found.a.bound(), x > 7)
    np.testing.assert_array_equal(found.a.overflown, x > 8)
    np.testing.assert_array_equal(found.b, np.where(x < 6, x, x + 1))
    assert found.a.cancels

    uneven = in_slabs(lambda v: Val(v, float(v[0])), (x,), x.shape)
    np.testing.assert_array_equal(uneven.bound(), x // 3 * 3)
