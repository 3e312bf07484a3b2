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
def shortened(x: pk.Tensor["M", "N"]):
    """Read from rows of any length, stored in rows that begin where vectors do."""
    return x[:, :-3] * 2.0


@pk.operator
def summed_along(x: pk.Tensor["M", "N"]):
    return pk.cumsum(x, axis=-1)


@pk.operator
def largest_of_lines(x: pk.Tensor["M", "N"]):
    return pk.max(x, axis=-1)


def _text(operator: pk.Operator, dtype: str, n: int) -> str:
    at = registry().target("cuda:sm_90a")
    return registry().language("cuda").emitter.emit(lowered_for(at, operator.program({"M": 64, "N": n}, {}, dtype)), at).text


def _vectors(operator: pk.Operator, dtype: str, n: int) -> list[int]:
    found = re.findall(r"pk::Rows<\d+, \d+, \d+(?:, (\d+))?>", _text(operator, dtype, n))
    return [int(v or 8) for v in found]


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_rows_of_an_odd_length_are_moved_element_by_element(dtype: str) -> None:
    assert _vectors(softmax_of_lines, dtype, 1023) == [1]
    assert _vectors(softmax_of_lines, dtype, 1024) == [8 if dtype == "bf16" else 4]


def test_very_long_rows_of_16_bits_that_are_stored_are_put_together() -> None:
    text = _text(softmax_of_lines, "bf16", 50257)
    assert "pk::load_between" in text and "pk::store_between" in text
    assert _vectors(softmax_of_lines, "bf16", 50257) == [8]
    assert _vectors(softmax_of_lines, "f32", 50257) == [1]
    assert _vectors(largest_of_lines, "bf16", 50257) == [1]  # nothing is stored


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_a_store_between_vectors_decides(dtype: str) -> None:
    """A warp that writes every eighth element of 16 bits eight times moves each sector eight times."""
    assert _vectors(padded, dtype, 224) == [1]
    assert _vectors(without_first, dtype, 1024) == [1]


def test_a_load_between_vectors_does_not() -> None:
    assert "pk::load_shifted" in _text(shortened, "bf16", 1027)
    assert _vectors(shifted_into_rows, "bf16", 1032) == [8]


def test_rows_that_are_scanned_stay_vectors() -> None:
    assert set(_vectors(summed_along, "bf16", 1023)) == {8}
    text = _text(summed_along, "bf16", 1023)
    assert "pk::load_between" in text and "pk::store_between" in text


@pk.operator
def rows_in_two_places(x: pk.Tensor["M", "N"]):
    """Long rows that are read from between vectors, stored both at their beginning and further on."""
    return x[:, 1:] + 1.0, pk.concat([x[:, :1], x[:, 1:] * 2.0], 1)


OPERATORS = (softmax_of_lines, padded, without_first, shifted_into_rows, shortened, rows_in_two_places, summed_along)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: op.name)
@pytest.mark.parametrize("n", [33, 72, 333, 513, 520, 1027])
def test_values(operator: pk.Operator, n: int) -> None:
    (row,) = pk.check(operator, "cuda:sm_90a", dtype="bf16", shape={"M": 70, "N": n}).rows
    assert row.correct, row.error


@pytest.mark.parametrize("operator", [softmax_of_lines, without_first, padded], ids=lambda op: op.name)
@pytest.mark.parametrize("n", [4099, 5001, 8190, 8191])
@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda:sm_80"])
def test_values_of_very_long_rows(operator: pk.Operator, n: int, target: str) -> None:
    """Rows whose ends and tiles' ends lie anywhere in a vector: nothing is written twice or outside."""
    (row,) = pk.check(operator, target, dtype="bf16", shape={"M": 9, "N": n}).rows
    assert row.correct, row.error
