"""Backwards built, run and held against the oracle."""

from __future__ import annotations

import pytest

import portakern as pk
from portakern.registry import registry
from portakern.study.study import Runner
from portakern.study.work import Problem, of_case, works
from tests.gradients import made_up

LIBRARY = ("softmax", "rms_norm", "layer_norm", "matmul", "silu_mul", "cross_entropy", "attention", "conv2d", "max_pool",
           "conv_transpose2d", "depthwise_conv", "avg_pool", "group_norm", "embedding", "segment_sum", "moe_grouped_matmul",
           "lstm", "linear_recurrence", "cumsum", "sort")  # fmt: skip


def checked(problems: list[Problem], target: str, dtypes: list[str]) -> None:
    asked = [w for p in problems for w in works(p, registry().match(target), [d for d in dtypes if d in p.operator.dtypes])]
    rows = Runner("checked", 2).run(asked).rows
    assert [(r.operator, r.target, r.dtype, r.shape, r.error) for r in rows if not r.correct] == []


def library(names: tuple[str, ...], cases: tuple[str, ...]) -> list[Problem]:
    found = [pk.grad(pk.load_operator(name)) for name in names]
    return [of_case(op, case) for op in found for case in op.cases if case.name in cases]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["numba:cpu", "cpp:cpu"])
def test_the_library_on_the_cpu(target: str) -> None:
    checked(library(LIBRARY, ("ragged", "one", "zero")), target, ["f32", "bf16"])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a", "hip:gfx942", "triton:sm_90", "pallas:v5e", "opencl:cpu"])
def test_some_on_accelerators(target: str) -> None:
    checked(library(("softmax", "rms_norm", "matmul", "attention", "conv2d", "max_pool"), ("tiny",)), target, ["f32", "bf16"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["binary", "broadcast", "moves", "folds", "running", "state_space", "products", "rnn"])
def test_made_up_ones_on_the_cpu(name: str) -> None:
    operator = pk.grad(getattr(made_up, name))
    sizes = [{d: n + i for i, d in enumerate(operator.dims)} for n in (5, 13)]
    checked([Problem(operator, s, {}) for s in sizes], "numba:cpu,cpp:cpu", ["f32", "bf16"])
