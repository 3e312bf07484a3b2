"""Dims of one element that a reshape puts in are put in last: norms written with them are one kernel, as those without are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import portakern as pk
from portakern.ir.tensor import Contract, Fold, Map, Reshape, tensor_type
from portakern.lower.simplify import simplify
from portakern.spec.operator import Operator
from tests.lower.test_lowering import compare

pytestmark = pytest.mark.quick

T = pk.Tensor


def normalised(g: Any, axes: tuple[int, ...]) -> Any:
    centred = g - pk.mean(g, axis=axes, keepdims=True)
    return centred * pk.rsqrt(pk.mean(centred * centred, axis=axes, keepdims=True) + 1e-5)


@pk.operator
def groups(x: T["M", "3*D"], scale: T["3*D"]):
    """[M, groups, channels, 1], as PyTorch normalises them."""
    g = pk.reshape(x, (x.shape[0], 3, x.shape[1] // 3, 1))
    weights = pk.reshape(scale, (1, 3, x.shape[1] // 3, 1))
    return pk.reshape(normalised(g, (2, 3)) * weights, x.shape)


@pk.operator
def instances(x: T["M", "C", "H", "W"]):
    """[1, M * C, H, W], as PyTorch normalises them."""
    m, c, h, w = x.shape
    return pk.reshape(normalised(pk.reshape(x, (1, m * c, h, w)), (0, 2, 3)), x.shape)


@pk.operator
def groups_of_a_product(x: T["M", "K"], w: T["K", "3*D"], scale: T["3*D"]):
    y = x @ w
    g = pk.reshape(y, (y.shape[0], 3, y.shape[1] // 3, 1))
    weights = pk.reshape(scale, (1, 3, y.shape[1] // 3, 1))
    return pk.maximum(pk.reshape(normalised(g, (2, 3)) * weights, y.shape), 0.0)


@pk.operator
def product_among_ones(x: T["B", "M", "K"], w: T["K", "N"]):
    """A dim of one element goes past the result's last one."""
    b, m, k = x.shape
    y = pk.reshape(pk.reshape(x, (1, b * m, k)) @ pk.reshape(w, (1, k, w.shape[1])), (b, m, 1, w.shape[1]))
    return pk.reshape(pk.transpose(y, (0, 1, 3, 2)), (b, m, w.shape[1]))


@pytest.mark.parametrize(("op", "dims", "kernels"), [
    (groups, {"M": 5, "D": 7}, 1), (instances, {"M": 3, "C": 5, "H": 4, "W": 6}, 1),
    (groups_of_a_product, {"M": 5, "K": 9, "D": 4}, 2), (product_among_ones, {"B": 2, "M": 5, "K": 4, "N": 7}, 1)],
    ids=lambda x: getattr(x, "name", None))  # fmt: skip
def test_norms_with_dims_of_one_element_are_one_kernel(op: Operator, dims: Mapping[str, Any], kernels: int) -> None:
    assert len(compare(op, dims, {}, "f32").kernels) == kernels


@pytest.mark.parametrize(("op", "dims"), [
    (groups, {"M": 1, "D": 1}), (groups, {"M": 1, "D": 5}), (instances, {"M": 1, "C": 1, "H": 1, "W": 6}),
    (instances, {"M": 2, "C": 1, "H": 1, "W": 1}), (groups_of_a_product, {"M": 1, "K": 1, "D": 2}),
    (product_among_ones, {"B": 1, "M": 1, "K": 3, "N": 1}), (instances, {"M": 0, "C": 2, "H": 3, "W": 1})],
    ids=lambda x: getattr(x, "name", None))  # fmt: skip
def test_dims_that_are_of_one_element_anyway(op: Operator, dims: Mapping[str, Any]) -> None:
    compare(op, dims, {}, "f32")


def test_both_reductions_look_at_the_array_in_one_shape() -> None:
    made = simplify(groups.program({"M": 5, "D": 7}, {}, "f32"))
    assert [tensor_type(op.x).shape for op in made.body.ops if isinstance(op, Fold)] == [(5, 3, 7)] * 2
    assert not [op for op in made.body.ops if isinstance(op, Map) and 1 in tensor_type(op).shape]


def test_what_is_done_with_numbers_alone_comes_before_the_reshape() -> None:
    made = simplify(groups_of_a_product.program({"M": 5, "K": 9, "D": 4}, {}, "f32"))
    (result,) = made.results
    assert isinstance(result, Reshape) and isinstance(result.x, Map) and result.x.fn == "max"
    assert sum(isinstance(op, Contract) for op in made.body.ops) == 1
