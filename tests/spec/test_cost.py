"""Operations and bytes."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.ir.size import evaluate
from portakern.spec.cost import cost

pytestmark = pytest.mark.quick


def test_matmul_counts_multiply_adds_as_two() -> None:
    c = cost(pk.load_operator("matmul").trace({}, "bf16"))
    assert str(c.flops) == "2*K*M*N"
    assert evaluate(c.bytes, {"M": 2, "N": 3, "K": 5}) == 2 * (2 * 5 + 5 * 3 + 2 * 3)


def test_elementwise_and_reductions_count_elements_once() -> None:
    c = cost(pk.load_operator("softmax").trace({}, "f32"))
    assert str(c.flops) == "5*M*N"  # max, subtract, exp, sum, divide
    assert str(c.bytes) == "8*M*N"


def test_intensity_needs_sizes() -> None:
    op = pk.load_operator("transpose")
    assert cost(op.trace()).intensity is None
    assert cost(op.program({"M": 8, "N": 8})).intensity == 0
    assert cost(op.program({"M": 0, "N": 8})).intensity is None


def test_a_dtype_of_its_own_counts_its_own_bytes() -> None:
    c = cost(pk.load_operator("matmul_bias_gelu").trace({}, "bf16"))
    assert evaluate(c.read_bytes, {"M": 1, "K": 1, "N": 10}) == 2 + 20 + 40
