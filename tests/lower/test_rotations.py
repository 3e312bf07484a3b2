"""Rotations of heads: finished halves in one kernel, or where their product is stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.program import Program
from portakern.ir.schedule import Nest, Schedule
from portakern.lower import lower
from portakern.spec.inputs import make_inputs
from portakern.spec.operator import Operator
from portakern.testing.tile_interpreter import run

T = pk.Tensor


def half_turned(x: Any) -> Any:
    n = x.shape[-1] // 2
    return pk.concat([-x[..., n:], x[..., :n]], axis=-1)


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """As Llama in transformers writes it."""
    return x * cos + half_turned(x) * sin


@pk.operator
def of_an_array(x: T["S", "H", "2*D"], cos: T["S", "2*D"], sin: T["S", "2*D"]):
    return rotated(x, cos[:, None], sin[:, None])


@pk.operator
def of_a_product(x: T["S", "K"], w: T["K", "3*2*D"], cos: T["S", "2*D"], sin: T["S", "2*D"]):
    heads = pk.reshape(x @ w, (x.shape[0], 3, cos.shape[1]))
    return rotated(heads, cos[:, None], sin[:, None])


@pk.operator
def heads_first(x: T["B", "S", "K"], w: T["3*2*D", "K"], cos: T["S", "2*D"], sin: T["S", "2*D"]):
    batch, rows, depth = x.shape
    width = cos.shape[1]
    heads = pk.reshape(pk.reshape(x, (batch * rows, depth)) @ w.T, (batch, rows, 3, width))
    return rotated(pk.transpose(heads, (0, 2, 1, 3)), cos, sin)


@pk.operator
def attended(q: T["S", "2*H", "2*D"], k: T["S", "H", "2*D"], v: T["S", "H", "2*D"], cos: T["S", "2*D"], sin: T["S", "2*D"]):
    """Keys are rotated, then repeated for two heads of queries each."""
    rows, heads, width = k.shape
    q, k = (rotated(x, cos[:, None], sin[:, None]) for x in (q, k))
    k, v = (pk.reshape(pk.broadcast_to(x[:, :, None], (rows, heads, 2, width)), (rows, 2 * heads, width)) for x in (k, v))
    scores = pk.einsum("ihd,jhd->hij", q, k, dtype=pk.f32) * 0.2
    scores = pk.where(pk.tri(rows, rows), scores, -math.inf)
    return pk.einsum("hij,jhd->ihd", pk.cast(pk.softmax(scores), v.dtype), v)


DIMS = {"B": 2, "S": 5, "K": 6, "H": 2, "D": 64}


def dims_of(op: Operator, **changed: int) -> dict[str, Any]:
    asked = {n for a in op.trace({}, "f32").args for s in getattr(a.type, "shape", ()) for n in getattr(s, "names", ())}
    return {n: size for n, size in {**DIMS, **changed}.items() if n in asked}


def choose(nest: Nest) -> Schedule:
    sizes = {"m": 4, "n": 8, "k": 4, "reduced": 64, "parallel": 4}
    whole = {a.name: 128 for a in nest.axes if nest.family == "attention" and a.role in "kd"}
    cells = [a.name for a in nest.axes if a.role == "parallel"][-2:]
    tiles = {a.name: whole.get(a.name, sizes.get(a.role, 1)) for a in nest.axes if a.role != "parallel" or a.name in cells}
    return Schedule(tuple((a.name, tiles.get(a.name, 1)) for a in nest.axes))


def families(program: Program) -> list[str]:
    return [k.family for k in program.kernels]


@pytest.mark.quick
@pytest.mark.parametrize(("op", "wanted"), [
    (of_an_array, ["elementwise"]), (of_a_product, ["contraction"]), (heads_first, ["contraction"]),
    (attended, ["elementwise", "elementwise", "attention"]),
], ids=lambda x: getattr(x, "name", ""))  # fmt: skip
def test_kernels(op: Operator, wanted: list[str]) -> None:
    program = op.program(dims_of(op), {}, "f32")
    made = lower(program, choose)
    assert families(made) == wanted
    inputs = make_inputs(program)
    np.testing.assert_allclose(run(made, inputs, {})["out"], evaluate(program, inputs)["out"], rtol=2e-5, atol=2e-5)


@pytest.mark.quick
@pytest.mark.parametrize("heads", [False, True])
def test_small_heads_are_rotated_behind_their_product(heads: bool) -> None:
    """Of 32 columns a block would have too few; and of none where the language wants whole products."""
    size = 64 if not heads else 16
    program = of_a_product.program(dims_of(of_a_product, D=size), {}, "f32")
    made = lower(program, choose, heads=heads)
    assert families(made) == ["contraction", "elementwise"]
    inputs = make_inputs(program)
    np.testing.assert_allclose(run(made, inputs, {})["out"], evaluate(program, inputs)["out"], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("target", ["cpp:cpu", "hip:gfx942", "triton:sm_90", "cuda:sm_90a"])
def test_right_in_every_language(target: str) -> None:
    row = pk.check(of_a_product, target, S=70, K=40, D=64, dtype="bf16").rows[0]
    assert row.correct and row.error is None
