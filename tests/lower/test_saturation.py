"""64-bit inputs of which only the sense matters, limited to 32 bits: results stay the same whatever the numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.ir.oracle import evaluate
from portakern.ir.tensor import TensorProgram, TensorType, tensor_type
from portakern.lower.narrow import without_wide_integers
from portakern.lower.saturation import limited
from portakern.spec.operator import operator

pytestmark = pytest.mark.quick
T = pk.Tensor

FAR = np.array([0, 1, 6, 7, -1, -7, -8, 2**32 + 3, -(2**32) - 2, 2**31, 2**31 - 1, -(2**31), 2**30, 2**40, -(2**40),
                2**62, -(2**62), 2**63 - 8, -(2**63) + 8], np.int64)  # fmt: skip
"""Indices of 7 rows, inside and outside, among them such whose lower 32 bits are one of a row."""


def dtypes_in(program: TensorProgram) -> set[str]:
    return {tensor_type(op).dtype for op in program.body.ops if isinstance(op.type, TensorType)}


def arithmetic_in_64_bits(program: TensorProgram) -> list[str]:
    """Lines of i64 but for arguments and their limits, literals, and results."""
    lines = [line for line in str(program).splitlines() if " i64] = " in line or "tensor[i64] = " in line]
    return [x for x in lines if not any(word in x for word in ("literal(", "map('max'", "map('min'", "convert("))]


@operator
def looked_up(t: T["V", "D"], i: T["M", pk.i64]):
    return pk.take(t, i, axis=0)


@operator
def from_the_end(t: T["V", "D"], i: T["M", pk.i64]):
    """As PyTorch's indices: those below 0 count from the end."""
    return pk.take(t, pk.where(i < 0, i + t.shape[0], i), axis=0)


@operator
def every_third(t: T["V", "D"], i: T["M", pk.i64]):
    return pk.take(t, (i * 3 - 1) // 2, axis=0)


@operator
def turned(t: T["V", "D"], i: T["M", pk.i64]):
    return pk.take(t, pk.max(pk.stack([-i, 2 - i], axis=1), axis=1), axis=0)


@operator
def added(t: T["V", "D"], i: T["M", pk.i64]):
    updates = pk.broadcast_to(pk.cast(pk.iota(i.shape, 0), pk.f32)[:, None], (i.shape[0], t.shape[1]))
    return pk.scatter(t, pk.broadcast_to(i[:, None], updates.shape), updates, axis=0)


@operator
def labelled(t: T["V", "D"], i: T["M", pk.i64]):
    """One hot, and what is ignored."""
    hot = i[:, None] == pk.cast(pk.iota((i.shape[0], t.shape[0]), 1), pk.i64)
    return pk.cast(hot, pk.f32) + pk.where(i == -7, 1.0, 0.0)[:, None] + pk.sum(t)


@operator
def clipped(t: T["V", "D"], i: T["M", pk.i64]):
    """What is limited by the operator itself is any number, also a result."""
    place = pk.clip(i, -3, 1000)
    return place * place + 1, pk.cast(place, pk.f32), pk.sum(t)


KINDS = (looked_up, from_the_end, every_third, turned, added, labelled, clipped)


@pytest.mark.parametrize("op", KINDS, ids=lambda op: op.name)
def test_results_are_the_same_wherever_an_index_is(op: Any):
    program = op.program({"V": 7, "D": 3, "M": len(FAR)}, {}, "f32")
    narrow = without_wide_integers(program)
    assert "convert(" in str(limited(program)) and not arithmetic_in_64_bits(narrow), narrow
    given = {"t": np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32), "i": FAR}
    for name, want in evaluate(program, given).items():
        np.testing.assert_array_equal(evaluate(narrow, given)[name], want)


@operator
def segmented(x: T["P"], offsets: T["S+1", pk.i64]):
    return pk.segment_sum(x, offsets)


def test_offsets_beyond_the_end_are_the_end():
    program = segmented.program({"P": 9, "S": 4}, {}, "f32")
    narrow = without_wide_integers(program)
    assert not arithmetic_in_64_bits(narrow)
    given = {"x": np.arange(9, dtype=np.float32), "offsets": np.array([-(2**40), 3, 5, 2**33 + 2, 2**62], np.int64)}
    for name, want in evaluate(program, given).items():
        np.testing.assert_array_equal(evaluate(narrow, given)[name], want)


@operator
def by_value(t: T["V"], x: T["M"]):
    """Floats as places."""
    return pk.take(t, pk.cast(pk.floor(x * 2.0), pk.i64) + 3, axis=0), pk.clip(pk.cast(x, pk.i64), 0, 255)


def test_floats_are_limited_before_they_are_integers():
    program = by_value.program({"V": 7, "M": 9}, {}, "f32")
    narrow = without_wide_integers(program)
    assert not arithmetic_in_64_bits(narrow) and "convert(x, 'i64')" not in str(narrow)
    x = np.array([0, 1.5, -1.4, -2, 3e9, -3e9, 1e15, -1e18, 254.9], np.float32)
    given = {"t": np.arange(1, 8, dtype=np.float32), "x": x}
    for name, want in evaluate(program, given).items():
        np.testing.assert_array_equal(evaluate(narrow, given)[name], want)


@operator
def given_back(i: T["M", pk.i64]):
    return i + 1


@operator
def as_floats(i: T["M", pk.i64]):
    return pk.cast(i, pk.f32)


@operator
def lower_half(i: T["M", pk.i64]):
    return pk.cast(i, pk.i32)


@operator
def differences(t: T["V", "D"], i: T["M", pk.i64], j: T["M", pk.i64]):
    """Far numbers may lie next to each other."""
    return pk.take(t, i - j, axis=0), i == j


@operator
def of_a_far_one(i: T["M", pk.i64]):
    return i < 3_000_000_000


@operator
def parity(t: T["V", "D"], i: T["M", pk.i64]):
    return pk.take(t, i % 2, axis=0)


@operator
def in_order(t: T["V", "D"], i: T["M", pk.i64]):
    return pk.take(t, pk.argsort(i, axis=0), axis=0)


@pytest.mark.parametrize("op", [given_back, as_floats, lower_half, differences, of_a_far_one, parity, in_order],
                         ids=lambda op: op.name)  # fmt: skip
def test_who_asks_for_more_than_the_sense_gets_the_number_itself(op: Any):
    sizes = {"V": 7, "D": 3, "M": 5}
    program = op.program({d: n for d, n in sizes.items() if d in op.all_dims({})}, {}, "f32")
    assert str(limited(program)) == str(program)


def test_an_index_of_a_dim_that_is_too_long_is_not_limited():
    program = from_the_end.program({"V": 2**31 - 5, "D": 1, "M": 5}, {}, "f32")
    assert str(limited(program)) == str(program)
