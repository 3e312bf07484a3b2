"""Values of no input that products are made of: stored once, where they take long to compute, and in no other case."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.ir import tile as t
from portakern.ir.functions import COSTLY
from portakern.ir.program import Program
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import Operator
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick


def _lowered(op: Operator, **sizes: int) -> Program:
    return lowered_for(registry().target("cuda:sm_90a"), op.program(sizes, dtype="f32"))


def _costly(kernel: t.Kernel) -> set[str]:
    return {op.fn for op in kernel.body.walk() if isinstance(op, t.Unary | t.Binary)} & COSTLY


def _inputs(program: Program, kernel: t.Kernel) -> set[str]:
    stored = {a.name for a in program.arrays if a.role == "input"}
    return stored & {str(getattr(op.buffer, "name", "")) for op in kernel.body.walk() if isinstance(op, t.Load)}


def test_the_roots_of_a_transform_are_computed_once() -> None:
    program = _lowered(load_operator("fft"), M=64, N=1024)
    products = [k for k in program.kernels if any(isinstance(op, t.Dot) for op in k.body.walk())]
    assert products and not any(_costly(k) for k in products)
    tables = [k for k in program.kernels if _costly(k)]
    assert tables and not any(_inputs(program, k) for k in tables)
    assert all(a.type.shape and 64 not in a.type.shape[:1] for a in program.by_role("temporary") if a.name == "t0")  # type: ignore[union-attr]


@pk.operator
def masked(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N"]):
    """What says where a product is wanted is cheap to compute."""
    return pk.where(pk.iota(x.shape, 0) >= pk.iota(x.shape, 1), x, 0.0) @ w


@pk.operator
def biased(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N"]):
    """Computed for every element of the result once, behind the product."""
    return x @ w + pk.exp(pk.cast(pk.iota((x.shape[0], w.shape[1]), 1), pk.f32) * -0.1)


@pk.operator
def scaled(x: pk.Tensor["M", "K"], w: pk.Tensor["K", "N"]):
    """Depends on an input."""
    return pk.exp(x) @ w


@pytest.mark.parametrize("op", [masked, biased, scaled])
def test_what_is_cheap_or_used_once_or_of_an_input_is_computed_where_it_is_needed(op: Operator) -> None:
    assert len(_lowered(op, M=128, N=128, K=64).kernels) == 1
