"""Windows along lines of memory, read by tiles of which some lie inside of their lines and others reach past an end."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.registry import registry

T = pk.Tensor
CUDA = registry().language("cuda")
AMPERE = registry().target("cuda:sm_80")
pytestmark = pytest.mark.skipif(not CUDA.simulator or not CUDA.simulator.available(AMPERE), reason="needs a C++ compiler")


@pk.operator
def pools(x: T["C", "N"]):
    """Neighbours, steps, taps that lie apart, and lines from their ends."""
    line = pk.permute(x[None], (0, 2, 1))
    found = [pk.avg_pool(line, 8, 1, 4), pk.max_pool(line, 4, 2, 1), pk.max_pool(line, 3, 1, 3, dilation=3),
             pk.max_pool(pk.flip(line, 1), 3, 1)]  # fmt: skip
    return tuple(pk.permute(y, (0, 2, 1)) for y in found)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("length", [1300, 3])
def test_right(length: int, dtype: str) -> None:
    dims: dict[str, Any] = {"C": 2, "N": length}
    (row,) = pk.check(pools, targets="cuda:sm_80", dtype=dtype, shape=dims).rows
    assert row.correct, row.error


def test_a_tile_inside_is_read_as_any_other() -> None:
    """The library asks once whether one is; a gather that did not say how far apart its columns are would ask for each."""
    text = str(pk.build(pools, target="cuda:sm_80", dtype="f32", C=2, N=1300).source)
    assert text.count("pk::along(pk::columns(pk::part<1") >= 3
