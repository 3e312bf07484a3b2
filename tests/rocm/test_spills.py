"""No kernel that the HIP backend ships spills or uses scratch (:mod:`tests.rocm.spills` is the same for all of them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import portakern as pk
from portakern.spec.load import library, load_operator
from tests.rocm import spills
from tests.rocm.helpers import needs_clang


def default_schedules(name: str, isas: Sequence[str]) -> None:
    needs_clang()
    op = load_operator(name)
    todo = list(spills.kernels([op], schedules=False, isas=isas))
    assert len(todo) >= len(op.cases) * len(op.dtypes) * len(isas)
    assert [message for message in map(spills.spilling, todo) if message] == []


@pytest.mark.parametrize("name", ["row_sum", pytest.param("matmul_bias_gelu", marks=pytest.mark.slow)])
def test_default_schedules_of_every_case(name: str) -> None:
    default_schedules(name, ("gfx942", "gfx1201"))


@pytest.mark.parametrize("isa", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("sizes", "causal"), [(dict(SQ=pk.dynamic, SK=pk.dynamic), True), (dict(SQ=4096, SK=4001), False)])
def test_attention_in_turns_of_keys_that_fill_no_tile(isa: str, sizes: dict[str, Any], causal: bool) -> None:
    needs_clang(isa)
    built = pk.build("attention", f"hip:{isa}", dtype="bf16", B=1, H=1, G=2, D=128, causal=causal, **sizes)
    assert "pk::OnlineSoftmax" in built.source
    assert built.resources and (built.resources["spills"], built.resources["scratch_bytes"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [op.name for op in library()])
def test_default_schedules_of_every_operator(name: str) -> None:
    default_schedules(name, spills.ISAS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "matmul", "matmul_bias_gelu"])
def test_every_schedule_of_products(name: str) -> None:
    needs_clang()
    todo = list(spills.kernels([load_operator(name)], schedules=True))
    assert [message for message in map(spills.spilling, todo) if message] == []
