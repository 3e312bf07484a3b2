"""Heads between rows and columns: blocks of columns are counted through both, so that no array is transposed first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import portakern as pk
from portakern.study import steps
from portakern.study.work import Problem, Work, works
from tests.tpu.helpers import target

T = pk.Tensor


@pk.operator
def attended(q: T["B", "S", "H", "D"], k: T["B", "S", "G", "H", "D"], v: T["B", "S", "G", "H", "D"], g: int = 1):
    """Queries of (B, S, H, D), as projections give them, beside the keys of one of G groups."""
    by_heads = [pk.transpose(x, (0, 2, 1, 3)) for x in (q, k[:, :, g], v[:, :, g])]
    weights = pk.softmax(pk.matmul(by_heads[0], pk.transpose(by_heads[1], (0, 1, 3, 2)), pk.f32), -1)
    return pk.transpose(pk.cast(pk.matmul(pk.cast(weights, v.dtype), by_heads[2], pk.f32), q.dtype), (0, 2, 1, 3))


def work(dims: Mapping[str, int], dtype: str = "bf16") -> Work:
    (made,) = works(Problem(attended, dims, {}), [target("v6e")], [dtype])
    return made


SIZES = {"B": 2, "S": 200, "H": 3, "D": 128, "G": 2}


@pytest.mark.quick
def test_whole_rows_of_lanes_are_counted_beside_each_other() -> None:
    text = steps.emit(work(SIZES))[0].text
    assert "transpose" not in text
    assert "lambda i_b, i_h: (i_b, 0, i_h)" in text  # queries and the result: the head is the number of the block
    assert "lambda i_b, i_h: (i_b, 0, i_h + 3)" in text  # keys of the second group
    assert "q.reshape(2, 200, 384)" in text and "k.reshape(2, 200, 768)" in text


@pytest.mark.quick
@pytest.mark.parametrize("change", [{"D": 64}, {"D": 100}])
def test_parts_of_rows_of_lanes_are_no_blocks(change: dict[str, int]) -> None:
    assert "transpose(0, 2, 1, 3)" in steps.emit(work({**SIZES, **change}))[0].text


def test_right() -> None:
    asked = work(SIZES)
    row = steps.check(asked, steps.build(asked), full=False)
    assert row.error is None and row.correct
