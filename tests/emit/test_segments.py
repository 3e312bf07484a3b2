"""Texts of the operators whose walks are bounded by what is read: a golden of each in three languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick

CASES: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "spmm": ("spmm", {"M": 1000, "K": 900, "N": 256, "P": dynamic}, "f32"),
    "segment_sum_line": ("segment_sum", {"P": 5000, "D": 1, "N": 300}, "f32"),
    "scatter_add": ("scatter_add", {"V": 1000, "D": 128, "M": 2000}, "f32"),
    "moe_grouped_matmul": ("moe_grouped_matmul", {"P": 2048, "K": 512, "N": 1024, "G": 8}, "bf16"),
}


@pytest.mark.parametrize("target", ["cuda:sm_90a", "triton:sm_90", "pallas:v6e"])
@pytest.mark.parametrize("name", CASES)
def test_text(name: str, target: str, golden: Callable[[str, str], None]) -> None:
    operator, dims, dtype = CASES[name]
    at = registry().target(target)
    program = load_operator(operator).program({d: n for d, n in dims.items() if n is not dynamic}, {}, dtype)
    source = registry().language(at.language).emitter.emit(lowered_for(at, program), at)
    golden(f"{name}_{at.language}{source.suffix}", source.text)
