"""Elementwise work behind a reshape that joins dims of a computed value: in the value's own dims, so that nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import portakern as pk
from portakern.ir.tensor import Contract, Expand, Iota, Literal, Map, Reshape
from portakern.lower.joining import joined_dims, with_dims
from portakern.lower.simplify import simplify
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from tests.lower.test_lowering import compare

pytestmark = pytest.mark.quick

T = pk.Tensor


@pk.operator
def by_group(x: T["M", "3*D"], scale: T["3*D"], shift: T["M", 1]):
    """Scales of (group, channel of the group), and one number for each row."""
    g = pk.reshape(x, (x.shape[0], 3, x.shape[1] // 3))
    y = g * pk.rsqrt(pk.mean(g * g, axis=-1, keepdims=True) + 1e-5)
    return pk.reshape(y, x.shape) * scale + shift


@pk.operator
def rounded_between(x: T["M", "2*D"], r: T["M", "2*D"]):
    g = pk.reshape(x, (x.shape[0], 2, x.shape[1] // 2))
    y = pk.reshape(pk.cast(g - pk.max(g, axis=-1, keepdims=True), pk.bf16), x.shape)
    return pk.cast(y, pk.f32) + pk.exp(r)


@pk.operator
def by_all_of_them(x: T["M", "2*D"]):
    """The other operand is computed of the joined dims: the value is needed whole."""
    g = pk.reshape(x, (x.shape[0], 2, x.shape[1] // 2))
    y = pk.reshape(g - pk.mean(g, axis=-1, keepdims=True), x.shape)
    return y / pk.max(y, axis=-1, keepdims=True)


def heads(x: Any, batch: int, rows: int, size: int) -> Any:
    """[B, M, 4 * D] as PyTorch gives it to ``bmm``: one batch of all heads of all batches."""
    return pk.reshape(pk.transpose(pk.reshape(x, (batch, rows, 4, size)), (0, 2, 1, 3)), (batch * 4, rows, size))


@pk.operator
def attention_of_joined_batches(x: T["B", "M", "4*D"], mask: T["M", "M"], w: T["4*D", "4*D"]):
    batch, rows, width = x.shape
    q, k, v = (heads(a, batch, rows, width // 4) for a in (x, pk.exp(x), pk.sin(x)))
    s = pk.reshape(q @ pk.swapaxes(k, -1, -2), (batch, 4, rows, rows)) * 0.5
    p = pk.softmax(pk.where(mask > 0.0, s, -float("inf")))
    y = pk.reshape(pk.reshape(p, (batch * 4, rows, rows)) @ v, (batch, 4, rows, width // 4))
    return pk.reshape(pk.transpose(y, (0, 2, 1, 3)), (batch * rows, width)) @ w


@pk.operator
def by_batches_of_rows(x: T["M", "B", 6], y: T["B", 3, "M", 2]):
    """Heads in the batch beside rows that come first: what is joined was split at the same time."""
    rows, batch, _ = x.shape
    a = pk.transpose(pk.reshape(x, (rows, batch * 3, 2)), (1, 0, 2))
    b = pk.transpose(pk.reshape(pk.exp(y), (batch * 3, rows, 2)), (0, 2, 1))
    return pk.max(a @ b, axis=-1)


GROUP_NORM = load_operator("group_norm")
ONE_KERNEL: list[tuple[Operator, Mapping[str, Any], Mapping[str, Any]]] = [
    (by_group, {"M": 5, "D": 7}, {}), (by_group, {"M": 1, "D": 40}, {}), (by_group, {"M": 3, "D": 1}, {}),
    (rounded_between, {"M": 4, "D": 9}, {}),
    (GROUP_NORM, {"N": 2, "C": 3, "H": 5, "W": 4}, {"groups": 3}),
    (GROUP_NORM, {"N": 2, "C": 1, "H": 3, "W": 1}, {"groups": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "dims", "params"), ONE_KERNEL, ids=lambda x: getattr(x, "name", None))
def test_nothing_is_stored_between(op: Operator, dims: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    made = compare(op, dims, params, "f32")
    assert len(made.kernels) == 1 and not made.by_role("temporary")


def test_an_attention_of_joined_batches_is_one() -> None:
    made = compare(attention_of_joined_batches, {"B": 2, "M": 5, "D": 7}, {}, "f32")
    assert [k.family for k in made.kernels if k.family != "elementwise"] == ["attention", "contraction"]


@pytest.mark.parametrize("dims", [{"B": 1, "M": 9, "D": 2}, {"B": 3, "M": 1, "D": 1}, {"B": 2, "M": 0, "D": 3}])
def test_joined_batches_of_one_and_none(dims: Mapping[str, Any]) -> None:
    compare(attention_of_joined_batches, dims, {}, "f32")


@pytest.mark.parametrize("dims", [{"B": 2, "M": 5}, {"B": 1, "M": 4}, {"B": 3, "M": 1}])
def test_batches_that_are_joined_and_split_at_once(dims: Mapping[str, Any]) -> None:
    made = compare(by_batches_of_rows, dims, {}, "f32")
    assert len(made.kernels) <= 3


def test_products_have_the_batches_that_were_joined() -> None:
    made = simplify(attention_of_joined_batches.program({"B": 2, "M": 5, "D": 7}, {}, "f32"))
    products = [op for op in made.body.ops if isinstance(op, Contract)]
    assert [op.type.shape for op in products] == [(2, 4, 5, 5), (2, 4, 5, 7), (10, 28)]  # type: ignore[union-attr]


def test_the_reshape_comes_last() -> None:
    made = simplify(by_group.program({"M": 5, "D": 7}, {}, "f32"))
    (result,) = made.results
    assert isinstance(result, Reshape) and isinstance(result.x, Map)
    assert not [op for op in made.body.ops if isinstance(op, Map) and op.type.shape == (5, 21)]  # type: ignore[union-attr]


def test_what_needs_the_joined_dims_has_the_value_stored() -> None:
    assert compare(by_all_of_them, {"M": 5, "D": 7}, {}, "f32").by_role("temporary")


@pytest.mark.parametrize(("inner", "outer", "groups"), [
    ((2, 3, 4), (6, 4), [(0, 1), (2,)]), ((2, 3, 4), (24,), [(0, 1, 2)]), ((6, 4), (2, 3, 4), None), ((4, 6), (6, 4), None),
    ((2, 1, 3), (2, 3), [(0,), (1, 2)]), ((3, 1), (3,), [(0, 1)]), ((3,), (1, 3), [(), (0,)]), ((), (1,), [()]),
])  # fmt: skip
def test_which_dims_are_joined(inner: tuple[int, ...], outer: tuple[int, ...], groups: list[tuple[int, ...]] | None) -> None:
    found = joined_dims(inner, outer)
    assert (found and [tuple(g) for g in found]) == groups


def test_the_coordinate_of_a_dim_that_goes_is_zero() -> None:
    made = with_dims(Iota((1, 5), 0, "i64"), {0: ()}, {})
    assert made is not None and str(made.type) == str(Iota((5,), 0, "i64").type)
    assert isinstance(made, Expand) and isinstance(made.x, Literal) and made.x.value == 0
    alone = with_dims(Iota((1,), 0, "i64"), {0: ()}, {})
    assert isinstance(alone, Literal) and alone.value == 0
