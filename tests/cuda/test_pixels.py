"""Convolutions whose pixels the copy engine walks, and those that threads find, in the interpreter."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.registry import registry

T = pk.Tensor
HOPPER = registry().target("cuda:sm_90a")
CUDA = registry().language("cuda")
pytestmark = pytest.mark.skipif(not CUDA.simulator or not CUDA.simulator.available(HOPPER), reason="needs a C++ compiler")


@pk.operator
def uneven(x: T["N", "H", "W", "C"], w: T[3, 2, "C", "O"], b: T["O"]):
    return pk.maximum(pk.conv(x, w, stride=(2, 1), padding=((1, 2), (0, 3)), dilation=(2, 3)) + b, 0.0)


@pk.operator
def residual(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "C"]):
    return pk.maximum(x + pk.conv(x, w, padding=1), 0.0)


@pk.operator
def along_a_line(x: T["N", "L", "C"], w: T[5, "C", "O"]):
    return pk.conv(x, w, dilation=2, padding=4)


@pk.operator
def solid(x: T["N", "D", "H", "W", "C"], w: T[2, 3, 1, "C", "O"]):
    return pk.conv(x, w, padding=(0, 1, 0), stride=(1, 2, 2))


@pk.operator
def channels_first(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"]):
    return pk.permute(pk.conv(x, w, padding=1), (0, 3, 1, 2))


@pk.operator
def transposed(x: T["N", "H", "W", "C"], w: T[4, 4, "C", "O"], b: T["O"]):
    return pk.conv(x, w, stride=2, padding=1, transposed=True) + b


@pk.operator
def transposed_line(x: T["N", "L", "C"], w: T[5, "C", "O"]):
    return pk.conv(x, w, stride=3, padding=2, transposed=True)


ENGINE = "m=64,n=64,k=64,warps=4,stages=3,copies=engine"
CASES = [
    (uneven, {"N": 2, "H": 9, "W": 11, "C": 32, "O": 72}, "cuda:sm_90a", ENGINE),
    (uneven, {"N": 2, "H": 9, "W": 11, "C": 32, "O": 72}, "cuda:sm_80", None),
    (residual, {"N": 3, "H": 7, "W": 7, "C": 64}, "cuda:sm_90a", ENGINE),
    (along_a_line, {"N": 3, "L": 30, "C": 16, "O": 64}, "cuda:sm_90a", ENGINE),
    (solid, {"N": 2, "D": 4, "H": 5, "W": 6, "C": 16, "O": 64}, "cuda:sm_90a", ENGINE),
    (channels_first, {"N": 2, "H": 8, "W": 8, "C": 32, "O": 72}, "cuda:sm_90a", ENGINE),
    (transposed, {"N": 3, "H": 5, "W": 6, "C": 64, "O": 72}, "cuda:sm_90a", f"{ENGINE},stores=engine"),
    (transposed, {"N": 2, "H": 5, "W": 6, "C": 16, "O": 21}, "cuda:sm_80", None),
]
MORE = [
    (transposed, {"N": 3, "H": 5, "W": 6, "C": 64, "O": 72}, "cuda:sm_90a", f"{ENGINE},stores=threads"),
    (transposed_line, {"N": 3, "L": 30, "C": 32, "O": 64}, "cuda:sm_90a", f"{ENGINE},stores=engine"),
]


@pytest.mark.parametrize(("op", "dims", "target", "schedule"), CASES, ids=[f"{c[0].name}-{c[2]}" for c in CASES])
def test_pixels(op: Any, dims: dict[str, Any], target: str, schedule: str | None) -> None:
    (row,) = pk.compare(op, targets=[target], dtype="bf16", schedule=schedule, **dims).rows
    assert row.error is None and row.evidence == "interpreted", row


@pytest.mark.slow
@pytest.mark.parametrize(("op", "dims", "target", "schedule"), MORE, ids=[c[0].name for c in MORE])
def test_more_pixels(op: Any, dims: dict[str, Any], target: str, schedule: str | None) -> None:
    test_pixels(op, dims, target, schedule)
