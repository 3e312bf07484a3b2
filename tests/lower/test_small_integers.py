"""Places and counts in 32 bits where a device has no more, and never what may not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type
from portakern.lower.narrow import without_wide_integers
from portakern.lower.small_integers import small
from portakern.spec.operator import operator

pytestmark = pytest.mark.quick
T = pk.Tensor


def dtypes_in(program: TensorProgram) -> set[str]:
    return {tensor_type(op).dtype for op in program.body.ops if isinstance(op.type, TensorType)}


def wide(x: Any) -> Any:
    return pk.cast(x, pk.i64)


@operator
def rolled(x: T["M", "N"]):
    """By places that are computed."""
    at = wide(pk.iota(x.shape[:1], 0))
    at = pk.where(at + 3 < wide(pk.iota(x.shape[:1], 0)) * 0 + 5, at + 3, abs(at + 3 - 5) % 5)
    return pk.take(x, at, axis=0)


@operator
def counted(x: T["M", "N"]):
    """How many are positive, as a float, beside where the largest is."""
    there = pk.sum(wide(x > 0), axis=1)
    return pk.cast(there + wide(pk.argmax(x, axis=1)), pk.f32)


@operator
def overflows(i: T["M", pk.i32]):
    """Products of what any i32 may be, and of places that are large enough."""
    large = wide(pk.iota(i.shape, 0)) * 1_000_000_000
    return pk.cast(wide(i) * wide(i), pk.f32), pk.cast(large * 3, pk.f32), pk.cast(large, pk.f32)


@pytest.mark.parametrize(("op", "dims"), [(rolled, {"M": 5, "N": 3}), (counted, {"M": 6, "N": 9})])
def test_what_fits_is_in_32_bits_and_the_same(op: Any, dims: dict[str, int]):
    program = op.program(dims, {}, "f32")
    narrow = without_wide_integers(program)
    assert "i64" in dtypes_in(program) and "i64" not in dtypes_in(narrow), narrow
    x = {"x": np.random.default_rng(0).standard_normal(tuple(dims.values())).astype(np.float32)}
    for name, want in evaluate(program, x).items():
        np.testing.assert_array_equal(evaluate(narrow, x)[name], want)


def test_what_may_not_fit_keeps_its_bits():
    program = overflows.program({"M": 5}, {}, "f32")
    narrow = without_wide_integers(program)
    text = str(narrow)
    assert text.count("map('mul'") == 3 and text.count("i64] = map('mul'") == 3
    x = {"i": np.array([2**31 - 1, -(2**31), 7, 0, 50_000], np.int32)}
    for name, want in evaluate(program, x).items():
        np.testing.assert_array_equal(evaluate(narrow, x)[name], want)


def test_open_dims_are_not_known_to_fit():
    program = rolled.program({"M": pk.dynamic, "N": 3}, {}, "f32")
    assert "i64" in dtypes_in(without_wide_integers(program))


@operator
def of_nothing(x: T["M", "N"]):
    """The largest of no number is the least that 64 bits have."""
    return pk.cast(pk.max(wide(pk.iota(x.shape, 1)), axis=1), pk.f32), pk.sum(x, axis=1)


@operator
def far(x: T["M", "N"]):
    """More steps than a stack is deep."""
    at = wide(pk.iota(x.shape[:1], 0))
    for n in range(400):
        at = pk.where(at > n, at - 1, at + 1)
    return x + pk.cast(at, pk.f32)[:, None]


@pytest.mark.parametrize(("op", "dims"), [(of_nothing, {"M": 3, "N": 0}), (far, {"M": 4, "N": 2})])
def test_numbers_of_nothing_and_of_many_steps_stay_the_same(op: Any, dims: dict[str, int]):
    program = op.program(dims, {}, "f32")
    narrow = without_wide_integers(program)
    x = {"x": np.ones(tuple(dims.values()), np.float32)}
    for name, want in evaluate(program, x).items():
        np.testing.assert_array_equal(evaluate(narrow, x)[name], want)


@operator
def put_and_cut(x: T["M", "N"]):
    """Counts that are scattered, windows of places, pieces, sorted places."""
    at = wide(pk.argmax(x, axis=1))
    counts = pk.scatter(pk.zeros((x.shape[1],), pk.i64), at, at * 0 + 1, axis=0)
    joined = pk.concat([counts, at, pk.pad(at, [(1, 2)], -1)], axis=0)
    return joined, pk.sort(at, axis=0), (at & 3) ^ 1


def test_results_are_32_bits_up_to_a_conversion():
    program = put_and_cut.program({"M": 6, "N": 9}, {}, "f32")
    narrow = without_wide_integers(program)
    assert all(small(r) is not None and tensor_type(r).dtype == "i64" for r in narrow.results)
    assert sum(tensor_type(op).dtype == "i64" for op in narrow.body.ops if isinstance(op.type, TensorType)) == 3, narrow
    x = {"x": np.random.default_rng(0).standard_normal((6, 9)).astype(np.float32)}
    for name, want in evaluate(program, x).items():
        np.testing.assert_array_equal(evaluate(narrow, x)[name], want)


@operator
def wrapped(x: T["M", pk.i8]):
    """The absolute value of -128 has 8 bits no more, and is -128 again."""
    return pk.cast(abs(x) < 0, pk.f32), pk.cast(-x > 127, pk.f32), wide(abs(x)) * 3


def test_what_wraps_in_few_bits_is_any_of_them():
    program = wrapped.program({"M": 4}, {}, "f32")
    x = {"x": np.array([-128, 127, 0, -5], np.int8)}
    for name, want in evaluate(program, x).items():
        np.testing.assert_array_equal(evaluate(without_wide_integers(program), x)[name], want)


@operator
def never_below(x: T["M", "N"]):
    """Places are not below 0, and are below their size."""
    at = pk.argmax(x, axis=1)
    return pk.where(at < 0, at + 7, at), pk.cast(at < x.shape[1], pk.f32)


def test_comparisons_that_ranges_decide_are_gone():
    narrow = without_wide_integers(never_below.program({"M": 5, "N": 7}, {}, "f32"))
    assert "map('lt'" not in str(narrow) and "select" not in str(narrow)
