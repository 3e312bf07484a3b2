"""Texts of convolutions whose rows are pixels: found by division, or walked by the copy engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import portakern as pk
from portakern.emit.launches import parse_launches
from portakern.registry import registry
from tests.lowering import lowered_for

T = pk.Tensor
pytestmark = pytest.mark.quick


@pk.operator
def conv_bias_relu(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"], b: T["O"]):
    return pk.maximum(pk.conv(x, w, padding=1) + b, 0.0)


@pk.operator
def twice_as_wide(x: T["N", "L", "C"], w: T[4, "C", "O"]):
    return pk.conv(x, w, stride=2, padding=1, transposed=True)


@pk.operator
def each_channel(x: T["N", "H", "W", "C"], w: T[3, 3, 1, "C"]):
    return pk.conv(x, w, padding=1, groups=x.shape[-1])


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda:sm_80", "triton:sm_90"])
@pytest.mark.parametrize(("op", "dims"), [
    (conv_bias_relu, {"N": 32, "H": 56, "W": 56, "C": 128, "O": 256}),
    (twice_as_wide, {"N": 32, "L": 1000, "C": 128, "O": 256}),
    (each_channel, {"N": 32, "H": 56, "W": 56, "C": 128}),
], ids=["conv", "transposed", "depthwise"])  # fmt: skip
def test_text(op: Any, dims: dict[str, int], target: str, golden: Callable[[str, str], None]) -> None:
    at = registry().target(target)
    source = registry().language(at.language).emitter.emit(lowered_for(at, op.program(dims, {}, "bf16")), at)
    golden(f"{op.name}_{at.device.isa}_{at.language}{source.suffix}", source.text)
    if source.launches:
        assert parse_launches(source.text) == source.launches


@pk.operator
def conv_of_planes(x: T["N", "C", "H", "W"], w: T["O", "C", 3, 3], b: T["O"]):
    y = pk.conv(pk.permute(x, (0, 2, 3, 1)), pk.permute(w, (2, 3, 1, 0)), padding=1) + b
    return pk.permute(pk.maximum(y, 0.0), (0, 3, 1, 2))


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda:sm_80"])
def test_text_of_planes(target: str, golden: Callable[[str, str], None]) -> None:
    """Pixels in columns meet taps in rows, and nothing is stored before."""
    at = registry().target(target)
    dims = {"N": 32, "H": 224, "W": 224, "C": 3, "O": 64}
    source = registry().language("cuda").emitter.emit(lowered_for(at, conv_of_planes.program(dims, {}, "f32")), at)
    assert "pk::cross(" in source.text and len(source.launches) == 1
    golden(f"conv_of_planes_{at.device.isa}{source.suffix}", source.text)


def test_pixels_that_the_engine_cannot_walk_are_copied_by_threads() -> None:
    at = registry().target("cuda:sm_90a")

    @pk.operator
    def far(x: T["N", "H", "W", "C"], w: T[3, 3, "C", "O"]):
        return pk.conv(x, w, padding=130, dilation=130)

    dims = {"N": 2, "H": 64, "W": 64, "C": 64, "O": 128}
    text = registry().language("cuda").emitter.emit(lowered_for(at, far.program(dims, {}, "bf16")), at).text
    assert "copy_pixels" not in text and "pk::part<" in text
    with pytest.raises(pk.PortakernError, match="step or reach farther than the copy engine does"):
        asked = lowered_for(at, far.program(dims, {}, "bf16"), {"copies": "engine"})
        registry().language("cuda").emitter.emit(asked, at)
