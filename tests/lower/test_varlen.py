"""Walks of attention that end where lengths say: found in masks, right for any length, and no step is made beyond."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir import tile as t
from portakern.ir.oracle import evaluate
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import lower
from portakern.spec.inputs import make_inputs
from portakern.spec.load import load_operator
from portakern.testing.tile_interpreter import run

pytestmark = pytest.mark.quick
T = pk.Tensor
DIMS = {"B": 3, "SQ": 5, "SK": 37, "D": 4}


def attended(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = pk.einsum("bqd,bkd->bqk", q, k, dtype=pk.f32)
    key, row = pk.iota(scores.shape, 2), pk.iota(scores.shape, 1)
    weights = pk.softmax(pk.where(mask(key, row), scores, -math.inf))
    return pk.einsum("bqk,bkd->bqd", pk.cast(weights, v.dtype), v)


Q, K = T["B", "SQ", "D"], T["B", "SK", "D"]


@pk.operator
def ends(q: Q, k: K, v: K, lengths: T["B", pk.i32]):
    return attended(q, k, v, lambda key, row: key < lengths[:, None, None])


@pk.operator
def between(q: Q, k: K, v: K, first: T["B", pk.i64], lengths: T["B", pk.i64]):
    """From one number that is read to the sum of two, the second of them of another dtype than coordinates have."""
    begin = first[:, None, None]

    def mask(key: Any, row: Any) -> Any:
        place = pk.cast(key, pk.i64)
        return (place >= begin) & ~(place >= lengths[:, None, None])

    return attended(q, k, v, mask)


@pk.operator
def behind(q: Q, k: K, v: K, lengths: T["B", pk.i32]):
    """The queries are the last of their sequence."""
    return attended(q, k, v, lambda key, row: key <= row + (lengths[:, None, None] - 5))


@pk.operator
def per_row(q: Q, k: K, v: K, lengths: T["B", "SQ", pk.i32]):
    """Every query has a length of its own, which ends no walk of several."""
    return attended(q, k, v, lambda key, row: key < lengths[:, :, None])


def choose(nest: Nest) -> Schedule:
    sizes = {"m": 4, "n": 8, "k": 4, "d": 4, "reduced": 64}
    return Schedule(tuple((a.name, sizes.get(a.role, 1)) for a in nest.axes))


def drawn(program: Any, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = make_inputs(program)
    for name, x in inputs.items():
        if x.dtype.kind == "i":
            far = [2**62, -(2**62)] if x.dtype == np.int64 else [2**31 - 1, -(2**31)]
            inputs[name] = rng.choice([*range(-2, 45), *far], x.shape).astype(x.dtype)
    return inputs


@pytest.mark.parametrize("operator", [ends, between, behind, per_row], ids=lambda o: o.name)
def test_right(operator: Any) -> None:
    program = operator.program(DIMS, {}, "f32")
    lowered = lower(program, choose)
    assert len(lowered.kernels) == 1
    for seed in range(4):
        inputs = drawn(program, seed)
        np.testing.assert_allclose(run(lowered, inputs, {})["out"], evaluate(program, inputs)["out"], rtol=2e-5, atol=2e-5)


def walk(operator: Any, **dims: Any) -> t.For:
    (kernel,) = lower(operator.program(dims or DIMS, {}, "f32"), choose).kernels
    (loop,) = (op for op in kernel.body.walk() if isinstance(op, t.For))
    return loop


def read(op: t.Op | None) -> set[str]:
    if op is None:
        return set()
    return {op.buffer.name} if isinstance(op, t.Load) else set().union(*map(read, op.operands))  # type: ignore[attr-defined]


def test_bounds_are_what_is_read() -> None:
    assert (read(walk(ends).lo), read(walk(ends).hi)) == (set(), {"lengths"})
    assert (read(walk(between).lo), read(walk(between).hi)) == ({"first"}, {"lengths"})
    assert read(walk(behind).hi) == {"lengths"}
    assert walk(per_row).hi is None


def test_of_several_bounds_the_nearest_counts() -> None:
    operator = load_operator("attention_varlen")
    dims = {"B": 2, "H": 1, "G": 1, "SQ": 8, "SK": 40, "D": 4}
    program = operator.program(dims, {"causal": True}, "f32")
    inputs = {**make_inputs(program), "lengths": np.array([11, 40], np.int32)}
    got = run(lower(program, choose), inputs, {})["out"]
    np.testing.assert_allclose(got, evaluate(program, inputs)["out"], rtol=2e-5, atol=2e-5)
