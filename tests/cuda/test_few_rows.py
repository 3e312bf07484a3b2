"""A few rows times two matrices: one kernel for Hopper, whose warps share the boxes of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import portakern as pk
from portakern.registry import registry

T = pk.Tensor
TARGET = "cuda:sm_90a"
SIMULATOR = registry().language("cuda").simulator
assert SIMULATOR is not None
needs_interpreter = pytest.mark.skipif(not SIMULATOR.available(registry().target(TARGET)), reason="needs a C++ compiler")


@pk.operator
def gated(x: T["M", "K"], gate: T["N", "K"], up: T["N", "K"]):
    return pk.silu(x @ gate.T) * (x @ up.T)


@pk.operator
def gated_by_rows(x: T["M", "K"], gate: T["K", "N"], up: T["K", "N"]):
    return pk.silu(x @ gate) * (x @ up)


@pk.operator
def turned_heads(x: T["S", "K"], w: T["H", "2*D", "K"], cos: T["S", "D", pk.f32], sin: T["S", "D", pk.f32]):
    """Heads of queries, of which each element is turned with the one in the other half."""
    half = cos.shape[-1]
    y = pk.einsum("sk,hdk->shd", x, w, dtype=pk.f32)
    a, b, c, s = y[..., :half], y[..., half:], cos[:, None], sin[:, None]
    return pk.cast(pk.concat([a * c - b * s, b * c + a * s], -1), x.dtype)


CASES = [
    (gated, {"M": 1, "N": 264, "K": 1032}, "row_times_columns_of<Acc, 4, 8, 2>"),
    (gated, {"M": 5, "N": 104, "K": 520}, "few_rows_of<Acc, 4, 5, false, 32, 2>"),
    (gated_by_rows, {"M": 1, "N": 200, "K": 520}, "few_rows_of<Acc, 4, 1, true, 32, 2>"),
    (turned_heads, {"S": 11, "H": 3, "D": 64, "K": 520}, "few_rows_of<Acc, 4, 11, false, 32, 2>"),
]


@pytest.mark.quick
@pytest.mark.parametrize(("op", "dims", "how"), CASES, ids=str)
def test_one_kernel_brings_both_matrices(op: pk.Operator, dims: dict[str, Any], how: str) -> None:
    built = pk.build(op, target=TARGET, dtype="bf16", **dims)
    assert len(built.program.kernels) == 1 and how in built.source
    assert built.source.count("pk::brought(") == 2 and built.source.count("// portakern map:") == 2


@pytest.mark.quick
def test_text(golden: Callable[[str, str], None]) -> None:
    golden("few_rows_of_two.cu", pk.build(turned_heads, target=TARGET, dtype="bf16", S=5, H=32, D=64, K=4096).source)


SLOW = [pytest.param(*x[:2], marks=pytest.mark.slow) for x in (CASES[0], *CASES[2:])]


@needs_interpreter
@pytest.mark.parametrize(("op", "dims"), [CASES[1][:2], *SLOW], ids=str)
def test_right(op: pk.Operator, dims: dict[str, Any]) -> None:
    row = pk.check(op, TARGET, dtype="bf16", **dims).rows[0]
    assert row.error is None and row.correct and row.evidence == "interpreted"
