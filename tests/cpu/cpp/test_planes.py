"""Convolutions of planes in C++: one product whose columns are pixels, on processors with fewer features too."""

from __future__ import annotations

from typing import Any

import pytest

import portakern as pk
from portakern.backends.cpu.cpp.toolchain import find_compiler
from portakern.errors import CompileError
from tests.cpu.cpp.test_products import LACKING, on_x86


def convolution(window: int, **how: Any) -> Any:
    @pk.operator
    def planes(x: pk.Tensor["N", "C", "H", "W"], w: pk.Tensor["K", "C", window, window]):
        return pk.conv(x, w, layout="NCHW", **how)

    return planes


@on_x86
@pytest.mark.parametrize("lacking", LACKING)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_pixels_are_columns(dtype: str, lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that end within a vector, strided pixels, taps apart, several images, and a last step that is not whole."""
    monkeypatch.setenv("PORTAKERN_CXX", " ".join([*find_compiler().command, lacking]))
    cases: list[tuple[Any, dict[str, Any]]] = [(convolution(3, padding=1), {"N": 2, "C": 31, "H": 6, "W": 13, "K": 9}),
             (convolution(3, padding=2, dilation=2, stride=(1, 2)), {"N": 3, "C": 16, "H": 5, "W": 40, "K": 8})]  # fmt: skip
    for op, dims in cases:
        try:
            source = pk.build(op, target="cpp:cpu", dtype=dtype, **dims).source
        except CompileError as error:
            pytest.skip(f"this compiler does not take {lacking}: {error.message.splitlines()[0]}")
        found = pk.check(op, targets="cpp:cpu", dtype=dtype, shape=dims)
        assert [str(row.evidence) for row in found.rows] == ["executed"], (dims, str(found))
        assert "pk::cross" in source and "pk::Buffer" not in source and "pk::gather" not in source


def text(op: Any, **dims: Any) -> str:
    return pk.build(op, target="cpp:cpu", dtype="f32", **dims).source


@pytest.mark.quick
def test_few_channels_of_strided_pixels_are_found_line_by_line() -> None:
    assert "pk::cross" not in text(convolution(5, stride=2), N=1, C=3, H=20, W=20, K=8)
    assert "pk::cross" in text(convolution(5), N=1, C=3, H=20, W=20, K=8)


@pytest.mark.quick
@pytest.mark.parametrize(("m", "n"), [(256, 256), (512, 512), (64, 100), (2000, 32)])
def test_a_product_has_blocks_for_all_cores(m: int, n: int) -> None:
    made = text("matmul", M=m, N=n, K=4096)
    blocks = int(made.split("pk::parallel(")[1].split(",")[0])
    assert blocks >= min(8, -(-m // 64) * -(-n // 64)), made
