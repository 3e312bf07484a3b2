# pyright: reportUndefinedVariable=false
"""Scans whose lines are shared by blocks (``split_k``): what the kernels are, and that they are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portakern as pk
from portakern.errors import ScheduleError
from portakern.registry import registry


def slow(n: int) -> Any:
    return pytest.param(n, marks=pytest.mark.slow)


@pk.operator(dtypes=("f32", "bf16", "i32"), cases={"typical": {"M": 3, "N": 2000}})
def scanned(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    """Two scans of one line, with work before and after them."""
    a, b = pk.cumsum(x * y, axis=-1), pk.cummax(y, axis=-1)
    return a + b, b


@pk.operator(cases={"typical": {"M": 3, "N": 2000}})
def of_a_scan(x: pk.Tensor["M", "N"]):
    return pk.cumsum(pk.cumsum(x, axis=-1), axis=-1)


@pytest.mark.parametrize("target", ["cpp:cpu", "numba:cpu", "opencl:cpu", "hip:gfx942"])
@pytest.mark.parametrize(("m", "n"), [(1, 1030), (3, 2000), (2, 513)])
def test_two_scans_in_parts(target: str, m: int, n: int) -> None:
    for dtype in ("f32", "i32"):
        study = pk.check(scanned, target, dtype, schedule={"n": 256, "split_k": 3}, shape={"M": m, "N": n})
        (row,) = study.rows
        assert row.evidence == ("simulated" if target.startswith("hip") else "executed"), row.error


PARTS = {"n": 128, "split_k": 4}


@pytest.mark.parametrize(("n", "filled"), [(600, "3"), (1152, "3"), (1024, "4")])
def test_parts_without_a_tile_are_no_steps_of_a_tpus_grid(n: int, filled: str) -> None:
    """A grid step stores its block in any case: that of a part without tiles would be one that another part has stored."""
    text = pk.build("cumsum", "pallas:v5e", "f32", schedule=PARTS, M=5, N=n).source
    assert f"grid=({filled}, {-(-n // 128)})," in text[text.index("cumsum_step_kernel,") :]


@pytest.mark.slow
@pytest.mark.parametrize("n", [600, 1152, 1024])
def test_parts_of_a_line_on_a_tpu(n: int) -> None:
    (row,) = pk.check("cumsum", "pallas:v5e", "f32", schedule=PARTS, shape={"M": 5, "N": n}).rows
    assert row.evidence == "interpreted", row.error


@pytest.mark.parametrize("n", [0, slow(1), 200, slow(600), 1024])
def test_parts_of_an_open_line_on_a_tpu(n: int) -> None:
    built = pk.build("cumsum", "pallas:v5e", "f32", schedule={"n": 128, "split_k": 4}, M=3)
    language, x = registry().language("pallas"), np.random.default_rng(0).standard_normal((3, n)).astype(np.float32)
    assert language.simulator is not None and language.adopt is not None
    source = language.adopt(built.source, None, built.program, registry().target("pallas:v5e"))
    found = language.simulator.load(source, None).call([x], {"N": n})
    assert np.allclose(found, np.cumsum(x, axis=1), atol=1e-4)


@pytest.mark.parametrize("params", [{"reverse": True}, {"exclusive": True}, {"reverse": True, "exclusive": True}])
@pytest.mark.parametrize("target", ["cpp:cpu", "hip:gfx942"])
def test_reversed_and_exclusive_in_parts(target: str, params: dict[str, bool]) -> None:
    study = pk.check("cumsum", target, "f32", schedule={"n": 256, "split_k": 4}, shape={"M": 2, "N": 1100}, param=params)
    assert not study.rows[0].error


def test_three_kernels_and_what_lies_between_them() -> None:
    built = pk.build("cumsum", "cuda:sm_90a", "f32", schedule={"n": 512, "split_k": 5}, M=3, N=20000)
    text = built.source
    assert text.index("cumsum_parts(") < text.index("cumsum_before(") < text.index("cumsum(\n")
    assert "scan_cols<pk::Sum, true>" in text  # the totals before each part
    assert "float total = cumsum_before_value;" in text


def test_few_long_lines_are_shared_by_default_and_many_are_not() -> None:
    few = pk.build("cumsum", "cuda:h100-sxm", "f32", M=1, N=10_000_000).source
    many = pk.build("cumsum", "cuda:h100-sxm", "f32", M=4096, N=8192).source
    assert "cumsum_before" in few
    assert "cumsum_before" not in many


def test_a_scan_of_a_scan_is_not_shared() -> None:
    """What another scan of the same kernel gives is not known to a block that has a part of a line."""
    assert "_before" not in pk.build(of_a_scan, "cuda:h100-sxm", "f32", M=1, N=10_000_000).source
    with pytest.raises(ScheduleError, match="takes what another one gives"):
        _ = pk.build(of_a_scan, "cuda:h100-sxm", "f32", schedule={"n": 512, "split_k": 5}, M=1, N=10_000_000).source
    assert not pk.check(of_a_scan, "cpp:cpu", "f32", shape={"M": 1, "N": 3000}).rows[0].error


def test_parts_of_a_line_that_one_tile_covers_are_refused() -> None:
    with pytest.raises(ScheduleError, match="one tile covers all of n"):
        _ = pk.build("cumsum", "cpp:cpu", "f32", schedule={"n": 4096, "split_k": 2}, M=2, N=4000).source
