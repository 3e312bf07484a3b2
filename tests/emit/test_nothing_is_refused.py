"""Operators that one language emitted and another refused."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.registry import registry
from portakern.study import steps
from portakern.study.work import Problem, works

pytestmark = pytest.mark.quick
T = pk.Tensor
TARGETS = ("numba:cpu", "cpp:cpu", "opencl:cpu", "sycl:cpu", "sycl:pvc", "hip:gfx942", "cuda:sm_90a", "triton:sm_90",
           "pallas:v6e")  # fmt: skip


@pk.operator
def pool_of_one_channel(y: T["N", "B", "D", 1]):
    """Windows along lines of memory, which reach outside of them."""
    return pk.avg_pool(y, 3, 1, 1)


@pk.operator
def less_than_its_pool(y: T["N", "B", "D", 1]):
    """The same beside the elements themselves, which are read as they lie."""
    return y - pk.avg_pool(y, 3, 1, 1)


@pk.operator
def attention_of_many_features(q: T["B", "D"], k: T["N", "D"], v: T["N", "D"]):
    """More than a block can have as a whole."""
    return pk.softmax(pk.matmul(q, k.T, dtype=pk.f32) * 0.125) @ v


@pk.operator
def product_of_integers(x: T["B", "D", pk.i32], y: T["D", "N", pk.i32]):
    """Which no matrix unit takes."""
    return x @ y


@pk.operator
def product_of_bytes(x: T["B", "D", pk.u8], y: T["D", "N", pk.u8]):
    return pk.matmul(x, y, dtype=pk.i32)


OPERATORS = [pool_of_one_channel, less_than_its_pool, attention_of_many_features, product_of_integers, product_of_bytes]


@pk.operator
def causal_attention(q: T["B", "D"], k: T["N", "D"], v: T["N", "D"]):
    """Which walks the keys that every row sees, and then the others: both walks have their keys in the same place."""
    rows, cols = pk.arange(q.shape[0])[:, None], pk.arange(k.shape[0])[None, :]
    return pk.softmax(pk.where(cols <= rows, q @ k.T, -float("inf"))) @ v


@pytest.mark.parametrize("target", ["hip:gfx942", "hip:gfx1201", "cuda:sm_80"])
@pytest.mark.parametrize("features", [96, 160, 256])
def test_causal_attention_of_wide_floats_has_room(features: int, target: str) -> None:
    (work,) = works(Problem(causal_attention, {"B": 63, "N": 63, "D": features}, {}), [registry().target(target)], ["f32"])
    done = steps.emission(work)
    assert [x.kernel for x in done.source.launches] == ["causal_attention"]
    declared = [line for line in done.source.text.splitlines() if "v_shared = " in line or "> v_shared[" in line]
    assert len(declared) == 1


@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx1201", "triton:sm_90"])
@pytest.mark.parametrize("depth", [8, 16, 40])
def test_short_sums_of_narrow_floats_are_emitted(depth: int, target: str) -> None:
    """Below what an instruction of 8 bits takes at once."""

    @pk.operator
    def op(x: T["M", "K", pk.f8e4m3], y: T["K", "N", pk.f8e4m3]):
        return pk.matmul(x, y, dtype=pk.f32)

    (work,) = works(Problem(op, {"M": 65, "K": depth, "N": 63}, {}), [registry().target(target)], ["f32"])
    row = steps.emit_row(work).row
    assert row.error is None, row.error


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.name)
def test_emitted(operator: Any, target: str) -> None:
    dims = {d: n for d, n in {"N": 24, "B": 20, "D": 600}.items() if d in operator.dims}
    (work,) = works(Problem(operator, dims, {}), [registry().target(target)], ["f32"])
    row = steps.emit_row(work).row
    assert row.error is None, row.error
