"""Convolutions of planes in f32, whose tiles have pixels in columns and taps in rows, in the interpreter."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.registry import registry

T = pk.Tensor
HOPPER = registry().target("cuda:sm_90a")
CUDA = registry().language("cuda")
pytestmark = pytest.mark.skipif(not CUDA.simulator or not CUDA.simulator.available(HOPPER), reason="needs a C++ compiler")

UNIT = "m=64,n=128,k=16,warps=4,stages=3"
THREADS = "m=32,n=256,k=16,warps=4,stages=2"
ONE_BY_ONE = "m=16,n=256,k=16,warps=4,stages=2"


@pk.operator
def padded(x: T["N", "C", "H", "W"], w: T["O", "C", 3, 3], b: T["O"]):
    y = pk.conv(pk.permute(x, (0, 2, 3, 1)), pk.permute(w, (2, 3, 1, 0)), padding=1) + b
    return pk.permute(pk.maximum(y, 0.0), (0, 3, 1, 2))


@pk.operator
def uneven(x: T["N", "C", "H", "W"], w: T["O", "C", 2, 3]):
    how = {"stride": (2, 1), "padding": ((1, 2), (0, 3)), "dilation": (2, 1)}
    return pk.permute(pk.conv(pk.permute(x, (0, 2, 3, 1)), pk.permute(w, (2, 3, 1, 0)), **how), (0, 3, 1, 2))


@pk.operator
def solid(x: T["N", "C", "D", "H", "W"], w: T["O", "C", 3, 3, 3]):
    return pk.permute(pk.conv(pk.permute(x, (0, 2, 3, 4, 1)), pk.permute(w, (2, 3, 4, 1, 0))), (0, 4, 1, 2, 3))


@pk.operator
def transposed(x: T["N", "C", "H", "W"], w: T["C", "O", 3, 3]):
    return pk.permute(pk.conv(pk.permute(x, (0, 2, 3, 1)), pk.permute(w, (2, 3, 0, 1)), transposed=True), (0, 3, 1, 2))


@pk.operator
def in_phases(x: T["N", "C", "H", "W"], w: T["C", "O", 3, 3]):
    found = pk.conv(pk.permute(x, (0, 2, 3, 1)), pk.permute(w, (2, 3, 0, 1)), stride=2, padding=1, transposed=True)
    return pk.permute(found, (0, 3, 1, 2))


CASES = [
    (padded, {"N": 1, "C": 3, "H": 9, "W": 11, "O": 40}, UNIT),
    (uneven, {"N": 2, "C": 5, "H": 13, "W": 12, "O": 24}, THREADS),
    (solid, {"N": 1, "C": 3, "D": 5, "H": 6, "W": 7, "O": 16}, ONE_BY_ONE),
]
MORE = [
    (padded, {"N": 2, "C": 20, "H": 9, "W": 11, "O": 64}, "m=64,n=128,k=32,warps=4,stages=2"),
    (transposed, {"N": 2, "C": 6, "H": 7, "W": 9, "O": 48}, UNIT),
    (in_phases, {"N": 2, "C": 6, "H": 7, "W": 9, "O": 48}, UNIT),
]


@pytest.mark.parametrize(("op", "dims", "schedule"), CASES, ids=[c[0].name for c in CASES])
def test_planes(op: Any, dims: dict[str, Any], schedule: str) -> None:
    assert "pk::cross" in str(pk.emit(op, "cuda:sm_90a", dtype="f32", schedule=schedule, **dims))
    (row,) = pk.compare(op, targets=["cuda:sm_90a"], dtype="f32", schedule=schedule, **dims).rows
    assert row.error is None and row.evidence == "interpreted" and row.correct, row


@pytest.mark.slow
@pytest.mark.parametrize(("op", "dims", "schedule"), MORE, ids=[c[0].name for c in MORE])
def test_more_planes(op: Any, dims: dict[str, Any], schedule: str) -> None:
    test_planes(op, dims, schedule)


@pytest.mark.quick
@pytest.mark.parametrize(("channels", "schedule"), [(64, UNIT), (24, THREADS), (16, ONE_BY_ONE)])
def test_few_channels_choose_what_was_fastest(channels: int, schedule: str) -> None:
    """What is chosen is the text of the schedule that was timed."""
    dims: dict[str, Any] = {"N": 16, "C": 3, "D": 64, "H": 64, "W": 64, "O": channels}
    chosen, asked = (pk.emit(solid, "cuda:h200", dtype="f32", schedule=s, **dims) for s in (None, schedule))
    assert chosen == asked
