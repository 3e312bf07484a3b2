"""Products of f32 on the matrix unit: in the interpreter as exact as one by one, and right where operands are infinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import ScheduleError
from portakern.registry import registry

T = pk.Tensor
CUDA = registry().language("cuda")
HOPPER = registry().target("cuda:sm_90a")
interpreted = pytest.mark.skipif(
    not CUDA.simulator or not CUDA.simulator.available(HOPPER), reason="needs a C++ compiler, for CUDA's interpreter"
)
UNIT = "m=64,n=64,k=32,warps=4,stages=2,mma=bf16x6-wgmma"
THREADS = "m=64,n=32,k=16,warps=2,stages=3,mma=bf16x6"


@pk.operator
def biased(a: T["M", "K"], b: T["K", "N"], c: T["N"]):
    return pk.maximum(a @ b + c, 0.0)


@pk.operator
def turned(a: T["K", "M"], b: T["N", "K"]):
    return pk.swapaxes(a, 0, 1) @ pk.swapaxes(b, 0, 1)


@pk.operator
def convolved(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"]):
    return pk.conv(x, w, padding=1)


@pk.operator
def of_itself(a: T["M", "K"]):
    return a @ pk.swapaxes(a, 0, 1)


def _row(op: Any, target: str, schedule: str, **dims: Any) -> Any:
    (row,) = pk.compare(op, targets=[target], dtype="f32", schedule=schedule, **dims).rows
    return row


DIMS = {biased: {"M": 70, "K": 37, "N": 90}, turned: {"M": 65, "K": 20, "N": 33}, of_itself: {"M": 66, "K": 40},
        convolved: {"N": 2, "H": 9, "W": 7, "C": 16, "O": 40}}  # fmt: skip
HOW = {"unit": ("cuda:sm_90a", UNIT), "threads": ("cuda:sm_90a", THREADS), "sm_80": ("cuda:sm_80", THREADS)}
QUICK = {(biased, "unit"), (turned, "unit"), (biased, "sm_80"), (of_itself, "sm_80"), (convolved, "sm_80")}
ALL = [pytest.param(op, DIMS[op], *HOW[how], id=f"{op.name}-{how}", marks=[pytest.mark.slow] * ((op, how) not in QUICK))
       for op in DIMS for how in HOW]  # fmt: skip


@interpreted
@pytest.mark.parametrize(("op", "dims", "target", "schedule"), ALL)
def test_thirds_are_as_exact_as_floats(op: Any, dims: dict[str, int], target: str, schedule: str) -> None:
    """Infinities and NaN among the operands are one of the checks' stages."""
    row = _row(op, target, schedule, **dims)
    assert row.error is None and row.evidence == "interpreted", row
    assert row.max_error_ratio < 1


@interpreted
@pytest.mark.parametrize("schedule", [UNIT, THREADS])
def test_an_infinity_is_multiplied_one_by_one(schedule: str) -> None:
    """Where it is in a block, its sums are those of multiply-adds; elsewhere they are what they were."""
    built = pk.build(biased, "cuda:sm_90a", dtype="f32", schedule=schedule, M=64, K=32, N=64)
    generator = np.random.default_rng(7)
    a, b, c = (generator.standard_normal(shape, np.float32) for shape in ((64, 32), (32, 64), (64,)))
    a[3, 5], a[7, 1], b[9, 2] = np.inf, np.nan, -np.inf
    assert CUDA.simulator is not None
    got = np.asarray(CUDA.simulator.load(CUDA.emitter.emit(built.program, HOPPER), None).call([a, b, c], {}))
    with np.errstate(invalid="ignore"):
        want = np.maximum(a.astype(np.float64) @ b + c, 0.0)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want.astype(np.float32), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_split_says_why() -> None:
    def emit(op: Any, dtype: str, target: str = "cuda:sm_90a", **schedule: Any) -> str:
        built = pk.build(op, target, dtype=dtype, schedule={"warps": 4, **schedule}, M=256, K=256, N=256)
        return str(built.plan)

    assert "six wgmma" in emit(biased, "f32", m=64, n=64, k=32)
    assert "six mma.sync" in emit(biased, "f32", "cuda:sm_80", m=64, n=64, k=32)
    assert "fused multiply-adds" in emit(biased, "f32", m=64, n=64, k=32, mma="fma")
    assert "fused multiply-adds" in emit(biased, "f32", m=16, n=16, k=32), "operands would be split too often"
    with pytest.raises(ScheduleError, match="not f32"):
        emit(biased, "bf16", m=64, n=64, k=64, mma="bf16x6")
    with pytest.raises(ScheduleError, match="does not have wgmma"):
        emit(biased, "f32", "cuda:sm_80", m=64, n=64, k=32, mma="bf16x6-wgmma")
    with pytest.raises(ScheduleError, match="more than 4 warps can hold twice"):
        emit(biased, "f32", m=128, n=128, k=32, mma="bf16x6-wgmma")


@pk.operator
def named(thirds: T["M", "K"], sum: T["K", "N"], turn: T["N"]):
    return thirds @ sum + turn


@interpreted
def test_arrays_may_have_the_names_of_what_splits_them() -> None:
    row = _row(named, "cuda:sm_90a", UNIT, M=64, K=32, N=64)
    assert row.error is None and row.correct, row
