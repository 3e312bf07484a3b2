"""The arithmetic of estimates: libtpu's texts read, a part's cycles extrapolated, cycles and bytes made a time.  No jax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portakern.backends.tpu.estimate import profile
from portakern.backends.tpu.estimate.estimator import LibtpuEstimator, estimated
from portakern.backends.tpu.estimate.figures import Core, core_of, mxu_of, priced
from portakern.backends.tpu.estimate.hlo import operations
from portakern.backends.tpu.estimate.model import GridSteps, extrapolate
from portakern.backends.tpu.estimate.part import sizes_of
from portakern.backends.tpu.estimate.profile import Mxu
from portakern.registry import registry
from portakern.study.row import Row
from portakern.study.table import text_table

pytestmark = pytest.mark.quick

TURNS = 4


def critical_path() -> str:
    """As libtpu writes it: a start of 3 cycles, four turns of a loop that waits 10 cycles for a copy, and an end."""
    lines, left = [], 3 + TURNS * 20 + 2

    def say(instruction: str, cycles: int) -> None:
        nonlocal left
        lines.append(f"Length to end: {left}, {instruction}")
        left -= cycles

    lines.append("window_bounds: (8, 32)")
    for n in range(3):
        say(f"%s{n}_s1 = smov.u32 {n}", 1)
    for turn in range(TURNS):
        say(f"%p{100 * turn}_p3 = scmp.ne.s32.totalorder %s{100 * turn + 1}_s16, %s7_s15", 1)
        say(f"%{100 * turn + 2} = dma.done.wait %s9_s2, 32768 /* pipeline-emitter-dma-wait */", 11)
        say(f"%v{100 * turn + 3}_v4 = vadd.f32 %v1_v1, %v2_v2", 1)
        say(f"%v{100 * turn + 4}_v4 = vpop.f32.mrf.mxu0", 7)
    say("%997 = vsyncpa [#allocation5], 1", 1)
    say("%998 = vsyncpa [#allocation6], 1", 1)
    return "\n".join(lines)


def test_a_timeline_has_the_loops_turns_and_what_was_waited_for():
    line = profile.timeline(critical_path(), (TURNS + 2, TURNS))
    assert line.cycles == 85
    assert line.marks == (3, 23, 43, 63, 85)
    assert line.waits == TURNS * 10
    assert line.stalls == {"result pops": TURNS * 6}


def test_a_timeline_without_such_a_loop_has_no_marks():
    assert profile.timeline(critical_path(), (9, 8)).marks == ()
    assert profile.timeline("", (4,)).cycles == 0


BUNDLES = """\
0x0: bundle slots:
  %v1_v1 = vld [vmem:[#allocation3]]
  %v2_v2 = vld [vmem:[#allocation3 + $0x8]]


0x1: bundle slots:
  %v3_v3 = vadd.f32 %v1_v1, %v2_v2
  %4 = vst [vmem:[#allocation7]] %v3_v3


0x2: bundle slots:
  %v9_v9 = vmatmul.mubr.bf16.gmra.mxu0 %v3_v3
  %65 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s35_s26, /*size_in_granules=*/32768, /*vmem=*/%s40_s28


0x3: bundle slots:
  %66 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s40_s28, /*size_in_granules=*/64, /*hbm=*/%s1_s1
"""


def test_units_are_used_for_a_share_of_their_slots():
    used = profile.utilisation(BUNDLES, Mxu(2, 0.5), issued=0.5)
    assert used["vector loads"] == pytest.approx(2 / 4 / 3 * 0.5, abs=1e-4)
    assert used["VPU"] == pytest.approx(1 / 4 / 4 * 0.5, abs=1e-4)
    assert used["MXU"] == pytest.approx(16 * 0.5 / 2 / 4 * 0.5, abs=1e-4), "a bf16 operand has 16 rows"
    narrow = profile.utilisation(BUNDLES.replace("mubr.bf16", "mubr.s8"), Mxu(2, 0.5), issued=0.5)
    assert narrow["MXU"] == used["MXU"], "twice the rows in the same time"
    assert profile.utilisation("", Mxu(2, 0.5), 1.0) == {}


def test_copies_are_counted_in_granules(tmp_path: Path):
    file = tmp_path / "k_bundles.txt"
    file.write_text(BUNDLES)
    assert profile.copied_bytes(file) == {"hbm_to_vmem": 1 << 20, "vmem_to_hbm": 2048}


def test_cycles_and_spills_are_read(tmp_path: Path):
    (tmp_path / "k.1_TPU v6 lite_static_llo_profile.textproto").write_text(
        'hlo_op_estimate {\n  hlo_op_name: "k.1"\n  estimated_cycles: 71931\n  num_equivalent_hlos: 1\n}\n'
    )
    assert profile.cycles(tmp_path) == {"k.1": 71931}
    table = "== CAPACTIY:\nVLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL\n3 3 2 2\n== UTILIZATION:\n1 0 0 1\n0 2 0 0\n"
    assert profile.spills(table) == (1, 2)
    assert profile.spills("") == (0, 0)


# ---- extrapolation


def product(m: int, k: int) -> GridSteps:
    """Steps of a product with ``m`` output blocks of ``k`` steps: the first sets up, the last stores."""
    i, j = np.divmod(np.arange(m * k), k)
    taken = np.stack([j == 0, j == k - 1], 1).astype(int)
    fetched = np.stack([np.ones(m * k, bool), np.r_[True, i[1:] != i[:-1]]], 1)
    return GridSteps(taken, fetched, (j == k - 1)[:, None])


def run(steps: GridSteps) -> tuple[int, list[int]]:
    """What a machine would take whose turns cost 100, 50 more to set up, 30 to store: (cycles, marks)."""
    marks, now = [17], 17
    for kind in steps.kinds(len(steps) + 2):
        now += 5 if (work := kind[0]) is None else 100 + 50 * work[0] + 30 * work[1]
        marks.append(now)
    return now, marks


@pytest.mark.parametrize("part", [(2, 4), (3, 4), (1, 4)])
def test_a_part_with_every_kind_of_turn_tells_the_whole(part: tuple[int, int]):
    some, whole = product(*part), product(50, 16)
    cycles, marks = run(some)
    found = extrapolate(cycles, marks, some, whole)
    assert found.cycles == pytest.approx(run(whole)[0], rel=0.002)
    assert found.seen > 0.85


@pytest.mark.parametrize(
    ("grid", "most", "sizes"),
    [
        ((), 8, ()),
        ((1024,), 32, (32,)),
        ((8, 8, 8), 8, (1, 2, 4)),
        ((4, 4, 8), 32, (2, 2, 8)),
        ((8, 16, 16), 32, (1, 2, 16)),
        ((3, 1, 2), 100, (3, 1, 2)),
    ],
)
def test_a_part_leaves_steps_to_outer_axes(grid: tuple[int, ...], most: int, sizes: tuple[int, ...]):
    assert sizes_of(grid, most) == sizes


def test_the_whole_grid_is_taken_as_it_is():
    whole = product(3, 4)
    assert extrapolate(1234, (), whole, whole).cycles == 1234


def test_without_a_loop_cycles_are_scaled_and_nothing_counts_as_seen():
    found = extrapolate(100, (), product(1, 2), product(5, 2))
    assert (found.cycles, found.seen) == (500.0, 0.0)


def test_kinds_that_a_part_has_not_are_not_counted_as_seen():
    some = GridSteps(np.zeros((8, 1), int), np.ones((8, 1), bool), np.ones((8, 1), bool))
    whole = GridSteps(np.r_[np.zeros((8, 1), int), np.ones((8, 1), int)], np.ones((16, 1), bool), np.ones((16, 1), bool))
    assert extrapolate(1000, tuple(range(0, 1100, 100)), some, whole).seen == pytest.approx(0.5, abs=0.15)


# ---- time


def operation(name: str = "k.1", cycles: int | None = 1750, size: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "cycles": cycles, "bytes": size, "times": 1, "begun": False, **more}


CORE = Core(clock=1.75e9, bandwidth=1e12, peak=9e14, cores=1, of=1)


def test_time_is_the_larger_of_cycles_and_bytes():
    assert priced([operation()], CORE)[0] == pytest.approx(1.0)
    us, (part,) = priced([operation(size=3_000_000)], CORE)
    assert us == pytest.approx(3.0) and part.bound == "bytes"
    assert priced([operation(times=5)], CORE)[0] == pytest.approx(5.0)


def test_copies_beside_other_work_cost_their_bytes_only():
    copy = operation("copy-start", None, 2_000_000, begun=True)
    assert priced([copy, operation()], CORE)[0] == pytest.approx(2.0), "the memory is busy for 2 us"
    assert priced([copy, operation(cycles=17500)], CORE)[0] == pytest.approx(10.0), "hidden behind 10 us of work"


def test_a_program_has_its_cores_share_of_the_chip():
    device = registry().target("pallas:tpu7x").device
    one, both = core_of(device, 1), core_of(device, 2)
    assert both.bandwidth == 2 * one.bandwidth == 7.38e12
    assert (one.cores, one.of) == (1, 2)


@pytest.mark.parametrize(("isa", "units", "cycles"), [("v5e", 4, 1.0), ("v5p", 4, 1.0), ("v6e", 2, 0.5), ("tpu7x", 2, 0.5)])
def test_matrix_units_take_rows_at_their_peak(isa: str, units: int, cycles: float):
    found = mxu_of(isa)
    assert found.units == units and found.cycles_per_row == pytest.approx(cycles, rel=0.01)


def kernel(**more: Any) -> dict[str, Any]:
    return {
        "name": "k", "operation": "k.1", "grid": (8,), "part": (4,), "steps": 1, "part_cycles": 900, "cycles": 1750.0,
        "seen": 1.0, "turns": 6, "waits": 0, "stalls": {}, "utilisation": {"VPU": 0.5, "MXU": 0.7}, "read": 0.0, "written": 0.0,
        "copied_in_part": {}, "by_data": False, "manual": False, "smallest_block": 1e6, "spills": 0, "fills": 0,
        "vmem_bytes": 1 << 20, **more,
    }  # fmt: skip


def estimate(**more: Any):
    profiled = {"operations": [operation(cycles=900)], "kernels": [kernel(**more)], "cores": 1}
    return estimated(profiled, registry().target("pallas:v6e"), "1")


def test_a_kernel_is_priced_over_its_whole_grid():
    found = estimate()
    assert found.us == pytest.approx(1.0) and found.limiter == "MXU slots"
    assert found.confidence.startswith("medium")
    assert estimate(read=1e9).limiter == "HBM bandwidth"
    assert estimate(waits=800).limiter == "latency of copies that are waited for"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"by_data": True}, "data decide"),
        ({"manual": True}, "copies by itself"),
        ({"seen": 0.5}, "50% of its steps"),
        ({"waits": 700}, "waits for copies 78%"),
        ({"smallest_block": 4096.0, "waits": 300, "steps": 8}, "blocks of 4 KiB"),
        ({"steps": 8}, "steps of 219 cycles"),
    ],
)
def test_what_the_model_does_not_know_lowers_the_confidence(more: dict[str, Any], why: str):
    assert estimate(**more).confidence.startswith("low: ") and why in estimate(**more).confidence


def test_v4_has_no_profile_and_says_so():
    found = LibtpuEstimator().available(registry().target("pallas:v4"))
    assert not found and "none for v4" in found.detail


# ---- XLA's programs

HLO = """\
HloModule jit_f, is_scheduled=true

%cond (p: (s32[], f32[8,128])) -> pred[] {
  %c = s32[] constant(8)
  %p = (s32[], f32[8,128]{1,0:T(8,128)}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %less = pred[] compare(%i, %c), direction=LT
}

%body (p: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {
  %p.1 = (s32[], f32[8,128]{1,0:T(8,128)}) parameter(0)
  %x.1 = f32[8,128]{1,0:T(8,128)} get-tuple-element(%p.1), index=1
  %inner = f32[8,128]{1,0:T(8,128)S(1)} fusion(%x.1), kind=kLoop, calls=%fused
  ROOT %t = (s32[], f32[8,128]{1,0:T(8,128)}) tuple(%p.1, %x.1)
}

ENTRY %main (x: bf16[1024,512], w: f32[8,128]) -> bf16[1024,512] {
  %x = bf16[1024,512]{1,0:T(8,128)(2,1)} parameter(0)
  %w = f32[8,128]{1,0:T(8,128)} parameter(1)
  %copy-start = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%w), backend_config={}
  %copy-done = f32[8,128]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %loop = (s32[], f32[8,128]{1,0:T(8,128)}) while(%t.0), condition=%cond, body=%body
  %none = token[] custom-call(%x), custom_call_target="NopReturnToken"
  ROOT %k.1 = bf16[1024,512]{1,0:T(8,128)(2,1)} custom-call(%x, %copy-done), custom_call_target="tpu_custom_call"
}
"""


def test_operations_of_a_program_with_their_bytes():
    found = {o.name: o for o in operations(HLO)}
    assert list(found) == ["copy-start", "less", "inner", "k.1"]
    assert found["copy-start"].begun and found["copy-start"].bytes == 4096
    assert found["inner"].times == 8 and found["inner"].bytes == 4096, "its result lies in VMEM"
    assert found["k.1"].bytes == 2 * 1024 * 512 * 2 and found["k.1"].resident == (False, True)
    assert operations("") == []


def test_tables_show_what_others_are_estimated_at_beside_the_estimate():
    peers = [{"name": "xla", "us": 61.5, "ratio": 1.5}, {"name": "other", "error": "no profile"}]
    found = {"us": 41.0, "model": "libtpu", "version": "1", "peers": peers}
    text = text_table([Row("softmax", "pallas:v6e", estimate=found)])
    assert "estimate us" in text and "~41.0 (libtpu)" in text and "time us" not in text
    assert "1.50x xla (~61.5); other: no profile" in text
