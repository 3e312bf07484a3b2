"""The cost model on compiled kernels: their loops and bytes, the order it puts schedules in, rows and tuning that use it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from portakern.backend import Estimate
from portakern.backends.rocm.amdgcn.cost.estimator import AmdEstimator
from portakern.errors import PortakernError
from portakern.launch.dispatch import dispatch_sequence_of
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.study import Runner
from portakern.study.work import Problem, Work, works

pytest.importorskip("ziglang")


def work_of(name: str, target: str, dtype: str = "bf16", schedule: dict | None = None, **dims: int) -> Work:
    (work,) = works(Problem(load_operator(name), dims, {}), [registry().target(target)], [dtype], schedule or "default")
    return work


@cache
def estimated(name: str, target: str, schedule: tuple = (), **dims: int) -> Estimate:
    work = work_of(name, target, "bf16", dict(schedule), **dims)
    made = steps.build(work)
    assert made.source is not None and made.row.error is None, made.row.error
    binary = steps.cached_binary(made.binary_key)
    assert binary is not None
    return AmdEstimator().estimate(made.source, binary, dispatch_sequence_of(made.source, binary, {}), None)


def kernel(e: Estimate, number: int = 0) -> dict:
    return e.details["kernels"][number]


@pytest.mark.parametrize("target", ["hip:gfx90a", "hip:gfx942", "hip:gfx950", "hip:gfx1100", "hip:gfx1201"])
def test_a_product_of_matrices_has_its_loop_and_its_bytes(target: str):
    m = n = k = 1024
    found = kernel(estimated("matmul", target, (("split_k", 1),), M=m, N=n, K=k))
    loop = found["loops"][0]
    assert loop["matrix_flops"] > 0 and loop["rounds"] > 4 and 0 < loop["matrix_share"] <= 1
    waves = found["threads"] // (32 if "gfx1" in target else 64)
    inside = loop["rounds"] * loop["matrix_flops"] * waves * found["blocks"]
    assert 0.8 * 2 * m * n * k <= inside <= 2 * m * n * k, "the loop does nearly all the arithmetic, and no more than there is"
    sizes = 2 * (m * k + k * n)
    assert sizes <= found["bytes"]["memory"] * 1.05 and found["bytes"]["l2"] >= found["bytes"]["last_level"] >= sizes * 0.95
    assert found["bytes"]["written"] == 2 * m * n and found["bytes"]["addresses_known"] == 1.0


def test_elementwise_kernels_are_bound_by_memory():
    e = estimated("add_relu", "hip:gfx942", M=8192, N=8192)
    found = kernel(e)
    assert found["bytes"]["memory"] == pytest.approx(2 * 2 * 8192**2, rel=0.01) and found["bytes"]["written"] == 2 * 8192**2
    assert "memory" in e.limiter or "vmcnt" in e.limiter, e.limiter


@pytest.mark.parametrize("count", [2, 3])
def test_larger_tiles_are_better_as_published(count: int):
    """256 x 256 is what published kernels take on CDNA 4, 128 and 64 are slower (HipKittens; AMD's Triton guide)."""
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    us = [estimated("matmul", "hip:gfx950", (("m", t), ("n", t), ("k", 64), ("warps", w)), **sizes).us
          for t, w in ((256, 8), (64, 4), (128, 4))[:count]]  # fmt: skip
    assert us[0] < us[-1] <= us[1]
    large = kernel(estimated("matmul", "hip:gfx950", (("m", 256), ("n", 256), ("k", 64), ("warps", 8)), **sizes))
    assert large["loops"][0]["matrix_share"] > 0.9 and large["loops"][0]["lds_conflict_cycles"] == 0


def test_small_products_want_small_tiles():
    sizes = {"M": 512, "N": 512, "K": 512}
    us = [estimated("matmul", "hip:gfx942", (("m", t), ("n", t), ("k", 32), ("warps", 4)), **sizes).us for t in (128, 64)]
    large, small = us
    assert small < large, "16 workgroups leave most of 304 units idle"


def test_faster_devices_are_faster():
    sizes = {"M": 2048, "N": 2048, "K": 2048}
    us = {isa: estimated("matmul", f"hip:{isa}", (("m", 128), ("n", 128), ("k", 32), ("warps", 4)), **sizes).us
          for isa in ("gfx90a", "gfx942", "gfx950")}  # fmt: skip
    assert us["gfx950"] < us["gfx90a"] and us["gfx942"] < us["gfx90a"]


def test_a_report_says_what_it_is():
    e = estimated("matmul", "hip:gfx942", M=1024, N=1024, K=1024)
    text = "\n".join(e.report)
    for said in ("us on AMD Instinct MI300X (estimate)", "limited by", "rounds of", "bank conflicts", "asked of L2"):
        assert said in text, text
    assert (e.model, e.version) == ("amd", AmdEstimator.version) and "bound" in e.confidence


def test_a_target_without_a_model_says_so():
    target = registry().target("hip:gfx1100")
    found = AmdEstimator().available(replace(target, device=replace(target.device, isa="gfx1030")))
    assert not found and "gfx1030" in found.detail


@pytest.mark.parametrize("target", [pytest.param("hip:gfx1100", marks=pytest.mark.slow), "hip:gfx1201"])
def test_rdna_ranks_tiles_by_its_matrix_instructions(target: str):
    """At 4096 small tiles are slower than 128 x 128, which rocBLAS takes (tinygrad, issue 5569)."""
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    found = {t: estimated("matmul", target, (("m", t), ("n", t), ("k", 32), ("warps", w)), **sizes)
             for t, w in ((128, 4), (32, 2))}  # fmt: skip
    assert found[128].us < found[32].us
    loop = kernel(found[128])["loops"][0]
    assert loop["matrix_share"] > 0.6 and loop["instructions"]["matrix cores"] > 0


@pytest.mark.parametrize("target", ["hip:gfx1100", pytest.param("hip:gfx1201", marks=pytest.mark.slow)])
def test_rows_of_rdna_have_an_estimate(target: str):
    row = Runner("compared", 1).run([work_of("softmax", target, M=512, N=4096)]).rows[0]
    assert row.estimate is not None and row.estimate["model"] == "amd", row.method
    found = kernel_of(row.estimate)
    assert found["bytes"]["addresses_known"] == 1.0 and found["bytes"]["memory"] == pytest.approx(2 * 512 * 4096, rel=0.01)


def test_triton_gets_the_model_through_the_registry():
    pytest.importorskip("triton")
    work = work_of("softmax", "triton:gfx942", M=64, N=512)
    row = Runner("compared", 1).run([work]).rows[0]
    assert row.estimate is not None and row.estimate["model"] == "amd", row.method
    assert kernel_of(row.estimate)["product"] == "mi300x"


def kernel_of(estimate: Mapping[str, Any]) -> dict[str, Any]:
    return estimate["details"]["kernels"][0]


def test_what_the_model_does_not_know_costs_the_estimate_and_not_the_row(monkeypatch: pytest.MonkeyPatch):
    work = work_of("add_relu", "hip:gfx942", M=4, N=128)

    def refuses(*_: object) -> Estimate:
        raise PortakernError("unknown-instruction", "the cost model does not know the instruction v_dream")

    monkeypatch.setattr(AmdEstimator, "version", "of this test")
    monkeypatch.setattr(AmdEstimator, "estimate", refuses)
    made = steps.build(work, estimate=True)
    assert made.row.error is None and made.row.evidence == "compiled" and made.row.estimate is None
    assert "no estimate: the cost model does not know the instruction v_dream" in (made.row.method or "")


def test_an_estimate_is_kept_by_the_version_of_the_model(monkeypatch: pytest.MonkeyPatch):
    work, count = work_of("add_relu", "hip:gfx942", M=4, N=192), []

    def counts(*_: object) -> Estimate:
        count.append(1)
        return Estimate(1.0, "nothing", "test", "1", "none")

    monkeypatch.setattr(AmdEstimator, "estimate", counts)
    fresh = uuid.uuid4().hex
    for version in ("1", "1", "2"):
        monkeypatch.setattr(AmdEstimator, "version", f"{fresh} {version}")
        steps.build(work, estimate=True)
    assert len(count) == 2, "once for each version"


def test_shipped_schedules_say_that_they_are_estimates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PORTAKERN_TUNED", str(tmp_path / "none.sqlite"))
    ask = Problem(load_operator("matmul"), {"M": 1024, "N": 1024, "K": 1024}, {})
    for target in ("hip:gfx942", "hip:mi300x", "hip:gfx950"):
        (work,) = works(ask, [registry().target(target)], ["bf16"])
        row = steps.emit_row(work).row
        assert (row.schedule_from, row.error) == ("tuned", None), row.schedule_note
        assert "shipped for hip:gfx9" in (row.schedule_note or "") and "by estimate" in (row.schedule_note or "")
