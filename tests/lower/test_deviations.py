"""Variances of long rows in the walk of their means, around the mean of each tile; others in two walks."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.ir import tile as t
from portakern.lower import lower_for
from portakern.registry import registry

pytestmark = pytest.mark.quick

LONG, SHORT = 1 << 18, 1 << 15


@pk.operator
def norm(x: pk.Tensor["B", "P"]):
    d = x - pk.mean(x, axis=1, keepdims=True)
    return d * pk.rsqrt(pk.mean(d * d, axis=1, keepdims=True) + 1e-5)


@pk.operator
def variances(x: pk.Tensor["B", "C", "P"]):
    return pk.var(x, axis=(1, 2)), pk.mean(x, axis=(1, 2))


@pk.operator
def around_another(x: pk.Tensor["B", "P"], m: pk.Tensor["B", 1]):
    d = x - m
    return pk.mean(d * d, axis=1), pk.mean(x, axis=1)


@pk.operator
def around_twice_the_mean(x: pk.Tensor["B", "P"]):
    d = x - pk.mean(x, axis=1, keepdims=True) * 2.0
    return pk.mean(d * d, axis=1)


@pk.operator
def around_a_rounded_mean(x: pk.Tensor["B", "P"]):
    d = x - pk.cast(pk.cast(pk.mean(x, axis=1, keepdims=True), pk.bf16), pk.f32)
    return pk.mean(d * d, axis=1)


@pk.operator
def around_the_mean_of_rounded(x: pk.Tensor["B", "P"]):
    d = x - pk.mean(pk.cast(pk.cast(x, pk.bf16), pk.f32), axis=1, keepdims=True)
    return pk.mean(d * d, axis=1)


def walks(op: pk.Operator, dims: dict[str, int], tile: int = 0) -> int:
    target, asked = registry().target("cpp:cpu"), {"reduced": tile} if tile else {}
    (kernel,) = lower_for(op.program(dims, {}, "f32"), target, registry().language("cpp"), asked).kernels
    return sum(isinstance(o, t.For) for o in kernel.body.walk())


@pytest.mark.parametrize(("op", "dims", "count"), [
    (norm, {"B": 3, "P": LONG}, 2), (norm, {"B": 3, "P": SHORT}, 3),
    (variances, {"B": 3, "C": 4, "P": LONG // 4}, 1),
    (around_another, {"B": 3, "P": LONG}, 1),  # which were always one
    (around_twice_the_mean, {"B": 3, "P": LONG}, 2),
    (around_a_rounded_mean, {"B": 3, "P": LONG}, 2), (around_the_mean_of_rounded, {"B": 3, "P": LONG}, 2),
])  # fmt: skip
def test_walks(op: pk.Operator, dims: dict[str, int], count: int) -> None:
    assert walks(op, dims, 4096) == count


@pytest.mark.parametrize("target", ["cpp:cpu", "numba:cpu"])
@pytest.mark.parametrize("op", [norm, variances])
def test_they_are_right_far_from_zero_beside_outliers_and_at_a_ragged_end(op: pk.Operator, target: str) -> None:
    dims = {"B": 2, "P": 131_073} if op is norm else {"B": 2, "C": 3, "P": 43_691}
    row = pk.check(op, target, dtype="f32", shape=dims).rows[0]
    assert row.correct and row.error is None, row.error


@pk.operator
def groups(x: pk.Tensor["B", "G", "C", "P"], w: pk.Tensor["G", "C"]):
    m = pk.mean(x, axis=(2, 3), keepdims=True)
    return (x - m) * pk.rsqrt(pk.var(x, axis=(2, 3), keepdims=True) + 1e-5) * w[None, :, :, None]


@pytest.mark.parametrize("target", ["cpp:cpu", "numba:cpu"])
def test_two_axes_may_be_walked(target: str) -> None:
    """Weights keep the channels of a group from being one axis with its pixels."""
    row = pk.check(groups, target, dtype="f32", shape={"B": 1, "G": 2, "C": 3, "P": 45_001}).rows[0]
    assert row.correct and row.error is None, row.error
    assert walks(groups, {"B": 1, "G": 2, "C": 3, "P": 45_001}) == 4  # two loops for both sums, two to store
