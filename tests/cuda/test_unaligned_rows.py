"""Rows that begin between multiples of 16 bytes: neighbouring lanes move neighbouring elements, whatever their width."""

from __future__ import annotations

import re

import pytest

import portakern as pk
from portakern.registry import registry
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick


@pk.operator
def softmax_of_lines(x: pk.Tensor["M", "N"]):
    return pk.softmax(x, axis=-1)


@pk.operator
def padded(x: pk.Tensor["M", "N"]):
    """Read from the beginning of its rows, stored one element further on."""
    return pk.pad(x, [(0, 0), (1, 1)])


@pk.operator
def without_first(x: pk.Tensor["M", "N"]):
    return x[:, 1:] + 1.0


@pk.operator
def shifted_into_rows(x: pk.Tensor["M", "N"]):
    """Read one element further on, stored in rows that begin where vectors do."""
    return x[:, 1:-7] * 2.0


@pk.operator
def summed_along(x: pk.Tensor["M", "N"]):
    return pk.cumsum(x, axis=-1)


def _vectors(operator: pk.Operator, dtype: str, n: int, m: int = 64) -> list[int]:
    at = registry().target("cuda:sm_90a")
    text = registry().language("cuda").emitter.emit(lowered_for(at, operator.program({"M": m, "N": n}, {}, dtype)), at).text
    return [int(v or 8) for v in re.findall(r"pk::Rows<\d+, \d+, \d+(?:, (\d+))?>", text)]


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_rows_of_an_odd_length_are_moved_element_by_element(dtype: str) -> None:
    assert _vectors(softmax_of_lines, dtype, 4091) == [1]
    assert _vectors(softmax_of_lines, dtype, 4096) == [8 if dtype == "bf16" else 4]


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_a_store_between_vectors_decides(dtype: str) -> None:
    """A warp that writes every eighth element of 16 bits eight times moves each sector eight times."""
    assert _vectors(padded, dtype, 224) == [1]
    assert _vectors(without_first, dtype, 1024) == [1]


def test_a_load_between_vectors_does_not() -> None:
    assert _vectors(shifted_into_rows, "bf16", 1032) == [8]


def test_rows_that_are_scanned_stay_vectors() -> None:
    assert set(_vectors(summed_along, "bf16", 4091)) == {8}


@pk.operator
def rows_in_two_places(x: pk.Tensor["M", "N"]):
    """Long rows that are read from between vectors, stored both at their beginning and further on."""
    return x[:, 1:] + 1.0, pk.concat([x[:, :1], x[:, 1:] * 2.0], 1)


OPERATORS = (softmax_of_lines, padded, without_first, shifted_into_rows, rows_in_two_places)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: op.name)
@pytest.mark.parametrize("n", [33, 72, 333, 513])
def test_values(operator: pk.Operator, n: int) -> None:
    (row,) = pk.check(operator, "cuda:sm_90a", dtype="bf16", shape={"M": 70, "N": n}).rows
    assert row.correct, row.error
