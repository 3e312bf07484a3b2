"""Differences of integers that go on into minimums and maximums: ptxas loses a sign of some for Hopper (``ptx::minus``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import portakern as pk
from portakern.backends.cuda.sass.disassembler import disassembler
from portakern.backends.cuda.toolchain import CudaToolchain
from portakern.registry import registry
from portakern.tools.process import run_tool

needs_compiler = pytest.mark.skipif(
    disassembler() is None or not CudaToolchain().available(registry().target("cuda:sm_90a")),
    reason="needs NVRTC and a disassembler",
)


@pk.operator
def unpacked(x: pk.Tensor["M", "8*N"], w: pk.Tensor["K", "8*N", pk.u4], scale: pk.Tensor["K", "N", pk.f32]):
    wide = pk.cast(pk.cast(w, scale.dtype) * pk.repeat(scale, 8, 1), x.dtype)
    return pk.matmul(x, wide.T, dtype=pk.f32)


@pk.operator
def until_the_end(x: pk.Tensor["M", "N", pk.i32], w: pk.Tensor["N", "K"]):
    ahead = pk.maximum(pk.arange(x.shape[-1])[::-1] - x, 0)
    return pk.matmul(pk.cast(ahead, w.dtype), w), pk.max(-x, axis=-1), pk.min(7 - x, axis=-1)


SIZES: list[tuple[pk.Operator, dict[str, Any], str, str]] = [
    (unpacked, {"M": 20, "N": 20, "K": 16}, "f16", "m=16,k=16,n_i=128,stages=2,warps=8"),
    (until_the_end, {"M": 33, "N": 70, "K": 20}, "f32", "default"),
]


@needs_compiler
def test_what_is_left_of_a_tile_is_counted_from_its_beginning(tmp_path: Path) -> None:
    """The second of two steps has 32 columns.  That ptxas knows once it has unrolled the loop, and what a thread copies is
    min(32 - its column, 8): a negative number in the joint instruction would be that of its column less 32."""
    operator, sizes, dtype, schedule = SIZES[0]
    cubin, tool = tmp_path / "a.cubin", disassembler()
    cubin.write_bytes(bytes(pk.emit(operator, "cuda:sm_90a", dtype, schedule, form="binary", **sizes)))  # type: ignore[arg-type]
    text = run_tool([str(tool), "-c", cubin]).checked("the kernel").stdout
    joined = re.findall(r"VIADDMNMX\S* ([^;]*);", text)
    assert joined and not [x for x in joined if re.search(r"0xffff[0-9a-f]{4}", x)]


@pytest.mark.gpu
@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize(("operator", "sizes", "dtype", "schedule"), SIZES)
def test_differences_are_right_on_a_gpu(operator: pk.Operator, sizes: dict[str, Any], dtype: str, schedule: str, language: str):
    from tests.judge.test_gpu import gpu

    (row,) = pk.check(operator, [gpu(language)], dtype, schedule if language == "cuda" else "default", **sizes).rows
    assert (row.error, row.correct, row.evidence) == (None, True, "executed")


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda:sm_80"])
def test_differences_are_what_they_were(target: str) -> None:
    operator, sizes, dtype, _ = SIZES[1]
    assert str(pk.emit(operator, target, dtype, **sizes)).count("pk::minus(") == 3
    (row,) = pk.check(operator, [target], dtype, **sizes).rows
    assert row.error is None
