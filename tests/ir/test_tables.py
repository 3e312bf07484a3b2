"""Every operation of both levels stands in every table: what it is, its bounds, its rule in each language."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.check.bounds.rules import RULES as BOUNDS
from portakern.fuzz.grammar.elementwise import FUNCTIONS
from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Function, Op
from portakern.ir.functions import BINARY, COMPARE, UNARY
from portakern.registry import registry
from portakern.study.steps import emit
from portakern.study.work import Problem, works

CPU = ("numba:cpu", "cpp:cpu", "opencl:cpu", "sycl:cpu")
TARGETS = (*CPU, "sycl:pvc", "triton:sm_90", "pallas:v5e", "hip:gfx942", "cuda:sm_90a")
TENSOR = [c for c in vars(t).values() if isinstance(c, type) and issubclass(c, Op) and c.__module__ == t.__name__]


@pk.operator
def unary(x: pk.Tensor["M", "N"]):
    numbers = (-x, pk.abs(x), pk.exp(x), pk.exp2(x), pk.expm1(x), pk.log(x), pk.log2(x), pk.log1p(x), pk.sqrt(x), pk.rsqrt(x))
    more = (pk.reciprocal(x), pk.tanh(x), pk.sigmoid(x), pk.erf(x), pk.sin(x), pk.cos(x), pk.floor(x), pk.ceil(x), pk.trunc(x))
    return *numbers, *more, pk.round(x), pk.sign(x), pk.isnan(x), ~(x > 0.0)


@pk.operator
def binary(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    compared = (x == y, x != y, x < y, x <= y, x > y, x >= y)
    return x + y, x - y, x * y, x / y, pk.maximum(x, y), pk.minimum(x, y), x**y, x % y, *compared


@pk.operator
def whole(x: pk.Tensor["M", "N", pk.i32], y: pk.Tensor["M", "N", pk.i32]):
    return x & y, x | y, x ^ y, pk.shift_left(x, y), pk.shift_right(x, y), x // y, x % y, ~x, -x, pk.abs(x), pk.sign(x)


def used(operator: pk.Operator, target: str) -> tuple[set[str], str]:
    """The functions of the operator's kernels on a target, and their text."""
    (work,) = works(Problem(operator, {"M": 5, "N": 37}, {}), [registry().target(target)], ["f32"])
    source = emit(work)[0]
    program = operator.program({"M": 5, "N": 37}, {}, "f32")
    return {op.fn for op in program.body.ops if isinstance(op, t.Map)}, source.text


@pytest.mark.parametrize("target", TARGETS)
def test_every_language_has_a_rule_for_every_function(target: str) -> None:
    found = set()
    for operator in (unary, binary, whole):
        functions, text = used(operator, target)
        assert text
        found |= functions
    assert found == {*UNARY, *BINARY, *COMPARE}


def test_every_tensor_operation_has_an_oracle_and_bounds() -> None:
    operations = [c for c in TENSOR if not issubclass(c, Function)]
    assert len(operations) > 20
    assert [c.__name__ for c in operations if c not in oracle.RULES] == []
    assert [c.__name__ for c in operations if c not in BOUNDS] == []


def test_the_fuzzer_draws_every_function_of_one_element() -> None:
    assert set(UNARY) - {f.name for f in FUNCTIONS} == {"not"}  # which is drawn with the truths
