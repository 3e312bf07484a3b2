"""Work behind a reshape that splits dims of a product: in the product's own dims, so that a block of a transformer stores what
it must and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import portakern as pk
from portakern.ir.tensor import Fold, Map, Reshape, Slice
from portakern.lower.simplify import simplify
from portakern.spec.operator import Operator
from tests.lower.test_lowering import compare

pytestmark = pytest.mark.quick

T = pk.Tensor


def linear(x: Any, w: Any) -> Any:
    """As PyTorch's decomposition has it: rows of all batches as one matrix."""
    *batch, features = x.shape
    rows = pk.reshape(x, (batch[0] * batch[1], features))
    return pk.reshape(rows @ w, (*batch, w.shape[1]))


def norm(x: Any, scale: Any) -> Any:
    y = x - pk.mean(x, axis=-1, keepdims=True)
    return y * pk.rsqrt(pk.mean(y * y, axis=-1, keepdims=True) + 1e-5) * scale


@pk.operator
def residual(x: T["B", "M", "D"], w: T["D", "D"], bias: T["D"]):
    return x + linear(x, w) + bias


@pk.operator
def residuals(x: T["B", "M", "D"], scale: T["D"], up: T["D", "F"], down: T["F", "D"]):
    for _ in range(2):
        x = x + linear(pk.relu(linear(norm(x, scale), up)), down)
    return x


@pk.operator
def by_batch(x: T["B", "M", "D"], w: T["D", "D"], shift: T["B", 1, 1]):
    """One number for each batch is none for the rows of all batches: the product is stored."""
    return linear(x, w) + shift


@pk.operator
def over_rows(x: T["B", "M", "D"], w: T["D", "D"]):
    """What is reduced is a part of the dims that were joined."""
    return pk.sum(linear(x, w), axis=1)


@pk.operator
def heads(x: T["B", "M", "4*D"], qkv: T["4*D", "12*D"]):
    y = linear(x, qkv)
    size = x.shape[2]
    parts = [y[:, :, n * size : (n + 1) * size] for n in range(3)]
    q, k, v = (pk.transpose(pk.reshape(p, (*x.shape[:2], 4, size // 4)), (0, 2, 1, 3)) for p in parts)
    return pk.softmax(q @ pk.swapaxes(k, -1, -2)) @ v


@pk.operator
def heads_by_several_moves(x: T["B", "M", "4*D"], qkv: T["4*D", "12*D"]):
    """As PyTorch's own attention has it: rows first, the three as a dim that comes to the front, heads in the batch."""
    size, (batch, rows, _) = x.shape[2], x.shape
    y = pk.reshape(linear(pk.transpose(x, (1, 0, 2)), qkv), (rows, batch, 3, size))
    y = pk.transpose(pk.reshape(y, (1, rows, batch, 3, size)), (3, 1, 2, 0, 4))
    y = pk.reshape(y, (3, rows, batch, size))
    parts = [pk.reshape(y[n : n + 1], (rows, batch * 4, size // 4)) for n in range(3)]
    q, k, v = (pk.reshape(pk.transpose(p, (1, 0, 2)), (batch, 4, rows, size // 4)) for p in parts)
    return pk.softmax(q @ pk.swapaxes(k, -1, -2)) @ v


@pk.operator
def residuals_from_another_side(x: T["B", "M", "D"], scale: T["D"], w: T["D", "D"]):
    """Products of rows of all batches, residuals of batches of rows: no product can store the sum."""
    for _ in range(6):
        x = x + pk.transpose(linear(pk.transpose(norm(x, scale), (1, 0, 2)), w), (1, 0, 2))
    return x


SIZES = {"B": 2, "M": 5, "D": 7}
KINDS: list[tuple[Operator, Mapping[str, Any], Sequence[str]]] = [
    (residual, SIZES, ["contraction"]),
    (residuals, {"B": 2, "M": 9, "D": 200, "F": 400}, ["rows", "contraction", "contraction"] * 2),
    (by_batch, SIZES, ["contraction", "elementwise"]),
    (over_rows, SIZES, ["contraction", "rows"]),
    (heads, SIZES, ["contraction", "attention"]),
    (heads_by_several_moves, SIZES, ["elementwise", "contraction", "attention"]),
]


@pytest.mark.parametrize(("op", "dims", "families"), KINDS, ids=lambda x: getattr(x, "name", None))
def test_the_kernels(op: Operator, dims: Mapping[str, Any], families: Sequence[str]) -> None:
    made = compare(op, dims, {}, "f32")
    assert [k.family for k in made.kernels] == families


@pytest.mark.parametrize("dims", [{"B": 1, "M": 5, "D": 7}, {"B": 3, "M": 1, "D": 1}, {"B": 2, "M": 0, "D": 3}])
def test_dims_of_one_and_none(dims: Mapping[str, Any]) -> None:
    compare(residual, dims, {}, "f32")
    compare(residuals, {**dims, "F": 4}, {}, "f32")


def test_the_reshape_comes_last() -> None:
    made = simplify(residual.program(SIZES, {}, "f32"))
    (result,) = made.results
    assert isinstance(result, Reshape) and isinstance(result.x, Map)
    assert not [op for op in made.body.ops if isinstance(op, Map) and op.type.shape == (2, 5, 7)]  # type: ignore[union-attr]


def test_reductions_are_of_rows_of_the_product() -> None:
    made = simplify(residuals.program({**SIZES, "F": 160}, {}, "f32"))
    assert [op.x.type.shape for op in made.body.ops if isinstance(op, Fold)][2:] == [(10, 7), (10, 7)]  # type: ignore[union-attr]


def test_a_slice_is_taken_of_what_is_split() -> None:
    made = simplify(heads.program(SIZES, {}, "f32"))
    slices = [op for op in made.body.ops if isinstance(op, Slice)]
    assert [op.starts for op in slices] == [(0, 0, n, 0) for n in (0, 4, 8)]


def test_no_kernel_adds_up_all_residuals_before_it() -> None:
    made = compare(residuals_from_another_side, {"B": 2, "M": 5, "D": 200}, {}, "f32")
    assert max(len(k.args) for k in made.kernels) == 5, "three arrays, the norm's scale and the result"


def test_few_columns_compute_the_norm_themselves() -> None:
    @pk.operator
    def few(x: T["M", "D"], scale: T["D"], w: T["D", "F"]):
        return norm(x, scale) @ w

    made = {f: compare(few, {"M": 9, "D": 33, "F": f}, {}, "f32") for f in (32, 160)}
    assert [t.type.shape for t in made[160].by_role("temporary")] == [(9, 33)]  # type: ignore[union-attr]
    assert all(len(t.type.shape) == 1 for t in made[32].by_role("temporary"))  # type: ignore[union-attr]
