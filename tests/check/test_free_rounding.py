"""What a stranger's kernel may leave out of an operator's roundings, and what it may not."""

# pyright: reportUndefinedVariable=false
# (dims are names in annotations)

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import portakern as pk
from portakern.check.bounds import propagate
from portakern.check.bounds.free import free_rounding
from portakern.check.compare import compare
from portakern.spec.load import load_operator

pytestmark = pytest.mark.quick

BF16 = np.dtype(ml_dtypes.bfloat16)


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(BF16).astype(np.float64)


def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {"x": rng.standard_normal((32, 300)).astype(BF16), "w": rng.standard_normal(300).astype(BF16)}


def verdicts(given: dict[str, np.ndarray], actual: np.ndarray) -> tuple[bool, bool]:
    """Whether a result passes as ours, and as a stranger's."""
    program = load_operator("rms_norm").program({"M": 32, "N": 300}, {}, "bf16")
    ours = propagate(program, given)
    with free_rounding():
        theirs = propagate(program, given)
    return tuple(not compare(v["out"], "bf16", actual).message for v in (ours, theirs))  # type: ignore[return-value]


def normed(given: dict[str, np.ndarray]) -> np.ndarray:
    x = given["x"].astype(np.float64)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)


def test_a_rounding_between_operations_may_be_left_out_by_strangers():
    given = rows()
    w = given["w"].astype(np.float64)
    assert verdicts(given, (rounded(normed(given)) * w).astype(BF16)) == (True, True)
    assert verdicts(given, (normed(given) * w).astype(BF16)) == (False, True)


def test_more_than_that_is_wrong():
    given = rows()
    w = given["w"].astype(np.float64)
    coarse = rounded(normed(given) * (1 + 2**-7))
    assert verdicts(given, (coarse * w).astype(BF16)) == (False, False)
    sums = np.zeros(32)
    for n in range(300):  # a sum in bf16
        sums = rounded(sums + rounded(given["x"][:, n].astype(np.float64) ** 2))
    narrow = given["x"].astype(np.float64) / np.sqrt(sums[:, None] / 300 + 1e-6)
    assert verdicts(given, (narrow * w).astype(BF16)) == (False, False)


@pk.operator
def quantised(x: pk.Tensor["N"]):
    return pk.cast(pk.cast(x * 2.5, pk.f8e4m3), pk.f32)


@pk.operator
def narrowed(x: pk.Tensor["N"]):
    return pk.cast(x * 2.5, pk.bf16)


@pytest.mark.parametrize("op", [quantised, narrowed])
def test_numbers_that_are_made_small_on_purpose_are_small(op: pk.Operator):
    """Types of 8 bits, and outputs."""
    x = np.random.default_rng(3).standard_normal(200).astype(np.float32)
    program = op.program({"N": 200}, {}, "f32")
    with free_rounding():
        free = propagate(program, {"x": x})["out"]
    assert np.array_equal(free.bound(), propagate(program, {"x": x})["out"].bound())
