"""Products of different operands in one text: each by the instructions that exist for it, on every device."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.registry import registry
from portakern.spec.operator import Operator
from portakern.study import steps
from portakern.study.work import Problem, Work, works

CUDA = registry().language("cuda")
TARGETS = ("cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_120")
assert CUDA.toolchain is not None and CUDA.simulator is not None
needs_nvrtc = pytest.mark.skipif(not CUDA.toolchain.available(registry().target("cuda:sm_90a")), reason="needs NVRTC")
needs_host = pytest.mark.skipif(not CUDA.simulator.available(registry().target("cuda:sm_90a")), reason="needs a C++ compiler")


@pk.operator
def linear_attention(q: pk.Tensor["S", "D"], k: pk.Tensor["S", "D"], v: pk.Tensor["S", "E"]):
    kv = pk.einsum("sd,se->de", k, v, dtype=pk.f32)
    return pk.cast(pk.matmul(pk.cast(q, pk.f32), kv), q.dtype)


@pk.operator
def two_sums(a: pk.Tensor["S", "D"], b: pk.Tensor["D", "E"], c: pk.Tensor["S", "L", pk.f32], d: pk.Tensor["L", "E", pk.f32]):
    return pk.matmul(a, b, dtype=pk.f32) + pk.matmul(c, d)


@pk.operator
def narrow_then_wide(a: pk.Tensor["S", "D"], b: pk.Tensor["D", "E"], c: pk.Tensor["E", "L", pk.f32]):
    return pk.matmul(pk.matmul(a, b, dtype=pk.f32), c)


@pk.operator
def wide_then_narrow(a: pk.Tensor["S", "D", pk.f32], b: pk.Tensor["D", "E", pk.f32], c: pk.Tensor["E", "L"]):
    return pk.matmul(pk.cast(pk.matmul(a, b), c.dtype), c)


@pk.operator
def two_halves(a: pk.Tensor["S", "D", pk.bf16], b: pk.Tensor["D", "E", pk.bf16], c: pk.Tensor["E", "L", pk.f16]):
    return pk.matmul(pk.cast(pk.matmul(a, b), pk.f16), c)


OPERATORS = (linear_attention, two_sums, narrow_then_wide, wide_then_narrow, two_halves)


def work(op: Operator, target: str, dtype: str) -> Work:
    (made,) = works(Problem(op, dict.fromkeys(op.dims, 64), {}), [registry().target(target)], [dtype])
    return made


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_it_compiles(op: Operator, target: str, dtype: str) -> None:
    row = steps.build(work(op, target, dtype)).row
    assert row.error is None, row.error


@needs_host
@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_it_is_right(op: Operator, target: str) -> None:
    asked = work(op, target, "bf16")
    row = steps.check(asked, steps.build(asked), full=False)
    assert row.error is None and row.correct, row.error


def test_both_kinds_of_products_stand_in_one_text() -> None:
    source = steps.emit(work(linear_attention, "cuda:sm_90a", "bf16"))[0]
    assert "pk/wgmma.cuh" in source.text and "pk/dot.cuh" in source.text
