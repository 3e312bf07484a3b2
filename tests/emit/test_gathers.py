"""Texts of kernels that gather: rows of a table that are normalised at once, and several elements of every line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import portakern as pk
from portakern.backends.tpu.text import typical
from portakern.registry import registry
from tests.lower import gather_operators
from tests.lowering import lowered_for

pytestmark = pytest.mark.quick

@pk.operator
def rows_of_two(x: pk.Tensor["V", "D"], y: pk.Tensor["V", "D"], i: pk.Tensor["M", "T", pk.i32],
                j: pk.Tensor["M", "T", pk.i32]):  # fmt: skip
    return pk.take(x, i, axis=0) + pk.take(y, j, axis=0)


TARGETS = ["cuda:sm_90a", "hip:gfx942", "triton:sm_90", "opencl:cpu", "sycl:cpu", "cpp:cpu", "numba:cpu"]
CASES = {
    "embedding_norm": ({"V": 32000, "D": 512, "T": 4000}, "bf16"),
    "several_of_a_line": ({"A": 8, "B": 100, "V": 4096, "K": 100}, "f32"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_text(name: str, target: str, golden: Callable[[str, str], None]) -> None:
    dims, dtype = CASES[name]
    at = registry().target(target)
    source = registry().language(at.language).emitter.emit(
        lowered_for(at, getattr(gather_operators, name).program(dims, {}, dtype)), at)
    golden(f"{name}_{at.language}{source.suffix}", source.text)


def test_a_tpu_fetches_the_row_of_an_index(golden: Callable[[str, str], None]) -> None:
    at = registry().target("pallas:v6e")
    program = lowered_for(at, gather_operators.embedding_norm.program({"V": 32000, "D": 512, "T": 4000}, {}, "bf16"))
    golden("embedding_norm_pallas.py", registry().language("pallas").emitter.emit(program, at).text)


def test_more_indices_than_scalar_memory_holds() -> None:
    at = registry().target("pallas:v6e")
    program = lowered_for(at, gather_operators.embedding_norm.program({"V": 32000, "D": 512, "T": 1 << 20}, {}, "bf16"))
    (missing,) = registry().language("pallas").emitter.missing(program, at)
    assert "1048576 indices in ids" in missing.what


BOTH = "the 150000 indices in i and the 150000 indices in j: the scalar memory of v5e has 1048576 bytes"


@pytest.mark.parametrize(("dims", "what"), [
    ({"V": 5000, "D": 128, "M": 1, "T": 100_000}, ""),
    ({"V": 5000, "D": 128, "M": 1, "T": 150_000}, BOTH),
    ({"V": 5000, "D": 128, "T": 100_000}, ""),
    ({"V": 5000, "D": 128, "T": 150_000}, BOTH),
])  # fmt: skip
def test_indices_of_a_kernel_share_scalar_memory(dims: dict[str, int], what: str) -> None:
    at = registry().target("pallas:v5e")
    program = lowered_for(at, rows_of_two.program(dims, {}, "f32"))
    missing = registry().language("pallas").emitter.missing(program, at)
    assert [m.what for m in missing] == ([what] if what else [])


@pytest.mark.parametrize(("t", "rows"), [(600, 128), (4099, 16), (100_000, 1)])
def test_open_sizes_are_compiled_for_indices_that_fit(t: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typical, "_MOST", 1 << 24)  # else the arrays picked bound them first
    at = registry().target("pallas:v5e")
    program = lowered_for(at, rows_of_two.program({"V": 5000, "D": 128, "T": t}, {}, "f32"))
    source = registry().language("pallas").emitter.emit(program, at)
    assert dict(source.options)["typical"] == (("M", rows),)


def test_a_missing_rule_names_the_line() -> None:
    at = registry().target("pallas:v6e")
    program = lowered_for(at, gather_operators.one_row.program({"V": 20, "D": 18}, {}, "f32"))
    (missing,) = registry().language("pallas").emitter.missing(program, at)
    assert "gather_operators.py:" in missing.where
    assert missing.alternative
