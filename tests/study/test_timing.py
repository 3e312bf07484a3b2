"""What is around the native loop: sets of inputs, rooflines, peers that fail, the table of times."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.device import Device, Figure
from portakern.dtypes import numpy_dtype
from portakern.native import open_device
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.row import Row
from portakern.study.times import times_text
from portakern.study.timing import time
from portakern.study.work import Problem, Work, works
from portakern.timing import inputs, roofline
from portakern.timing.inputs import HostPlace, how_many, input_sets, moved_on, same_bytes
from portakern.timing.roofline import Copy, peak_name


def work_of(operator: str, target: str = "numba:cpu", dtype: str = "f32", **dims: int) -> Work:
    (made,) = works(Problem(load_operator(operator), dims, {}), [registry().target(target)], [dtype])
    return made


# ---- inputs


@pytest.mark.parametrize(("per_set", "cache", "memory", "warm", "sets"), [
    (1 << 20, 32 << 20, 64 << 30, False, 16),  # the bound on sets
    (16 << 20, 32 << 20, 64 << 30, False, 4),  # twice the cache
    (256 << 20, 60 << 20, 140 << 30, False, 2),
    (1 << 20, 32 << 20, 64 << 30, True, 2),
    (1 << 30, 32 << 20, 4 << 30, False, 1),  # a quarter of the memory
    (64 << 20, None, None, False, 2),
])
def test_the_rotation_covers_the_cache_and_stays_within_memory(per_set, cache, memory, warm, sets):
    assert how_many(per_set, cache, memory, warm) == sets


@pytest.mark.parametrize("limit", [0, 1 << 40], ids=["moved", "drawn"])
def test_sets_differ_in_every_input_and_are_of_one_kind(monkeypatch: pytest.MonkeyPatch, limit: int):
    monkeypatch.setattr(inputs, "DRAWN_BYTES", limit)
    work = work_of("rms_norm", dtype="bf16", M=16, N=32)
    sets = input_sets(work.program, work.families, HostPlace(), 32 << 20, None)
    assert len(sets) == inputs.MOST_SETS
    for name in ("x", "w"):
        assert len({s[name].tobytes() for s in sets.host}) == len(sets)
        assert all(a.ctypes.data % 64 == 0 for arrays in sets.arrays for a in arrays)
    if not limit:
        assert all(sorted(s["x"].ravel().tolist()) == sorted(sets.host[0]["x"].ravel().tolist()) for s in sets.host)
    assert sets.changed() == "" and sets.changed(1) == "x"
    sets.arrays[3][1][5] += 1
    assert sets.changed() == "w"


@pytest.mark.parametrize("place", [HostPlace, lambda: inputs.TorchPlace("cpu")], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64", "bool"])
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4)])
def test_a_place_puts_writes_fills_and_gets(place, dtype: str, shape: tuple[int, ...]):
    pytest.importorskip("torch")
    where = place()
    rng = np.random.default_rng(0)
    first, second = (rng.integers(0, 2, shape).astype(numpy_dtype(dtype)) for _ in range(2))
    array = where.put(first)
    assert same_bytes(where.get(array), first)
    where.write(array, second)
    assert same_bytes(where.get(array), second)
    where.fill(array, 0)
    assert not where.get(array).astype(np.float64).any() and same_bytes(first, first.copy())


def test_moving_elements_never_gives_the_same_array():
    x = np.arange(1000, dtype=np.int64)
    assert all((moved_on(x, n) != x).all() for n in range(1, 16))
    assert moved_on(np.zeros((), np.float32), 1).shape == ()


# ---- roofline


def figure(value: float) -> Figure:
    return Figure(value, "?", "a test")


H = Device("sm_x", "V", "gpu", "X", ("f32", "bf16"), product="x1",
           figures={"bandwidth": figure(2e12), "peak_f32": figure(50e12), "peak_bf16": figure(1000e12)})  # fmt: skip


def test_a_roofline_names_what_was_measured_and_what_is_stated():
    program = work_of("softmax", dtype="bf16", M=1000, N=1000).program
    found = roofline.roofline(program, 4.0, Copy(1.5e12, "a copy"), H)
    assert found is not None
    assert found["bytes"] == 4_000_000 and found["gbs"] == pytest.approx(1000)
    assert found["share_of_measured_copy"] == pytest.approx(1 / 1.5) and found["measured_copy_gbs"] == 1500
    assert found["share_of_stated_peak"] == pytest.approx(0.5) and found["limiter"] == "memory"
    assert found["stated"]["product"] == "x1" and found["stated"]["bandwidth"]["source"] == "a test"


def test_a_product_is_bound_by_arithmetic_and_nothing_stated_is_nothing_claimed():
    program = work_of("matmul", dtype="bf16", M=4000, N=4000, K=4000).program
    found = roofline.roofline(program, 256.0, None, H)
    assert found is not None and found["limiter"] == "arithmetic" and found["measured_copy_gbs"] is None
    assert found["stated"]["peak_bf16"]["share"] == pytest.approx(0.5) == found["share_of_stated_peak"]
    bare = roofline.roofline(program, 256.0, None, None)
    assert bare is not None and bare["share_of_stated_peak"] is None and bare["stated"] is None and bare["limiter"] is None


def test_which_peak_counts():
    assert peak_name(work_of("matmul", dtype="f32", M=4, N=4, K=4).program) == "peak_f32"
    assert peak_name(work_of("matmul", dtype="bf16", M=4, N=4, K=4).program) == "peak_bf16"
    assert peak_name(work_of("add_relu", dtype="bf16", M=4, N=4).program) == "peak_f32"


def test_the_copy_of_the_host_is_measured_once():
    device = open_device("host")
    found = roofline.measured_copy(device)
    assert found is not None and found.bytes_per_s > 1e8 and "MiB" in found.method
    assert roofline.measured_copy(device) is found


# ---- a row


OPTIONS = {"budget_s": 0.1, "warm_up_s": 0.02}


def timed(work: Work, *against: str) -> Row:
    return time(work, steps.build(work), against, OPTIONS)


def test_a_peer_that_fails_in_the_loop_is_left_out_and_the_rest_is_timed(tmp_path):
    (tmp_path / "mine.py").write_text(
        "calls = 0\n\ndef tires(x):\n    global calls\n    calls += 1\n    if calls > 4:\n        raise ValueError('tired')\n"
        "    return x.sum(-1)\n\ndef holds(x):\n    return x.sum(-1)\n")  # fmt: skip
    row = timed(work_of("row_sum", M=64, N=64), f"{tmp_path}/mine.py:tires", f"{tmp_path}/mine.py:holds")
    assert row.error is None and row.time is not None
    holds, tires = row.time["peers"]
    assert holds["ratio"] > 0 and "tired" in tires["error"] and "while it was timed" in tires["error"]


def test_a_row_has_what_the_design_says():
    row = timed(work_of("row_sum", M=64, N=64), "numpy")
    assert row.time is not None
    assert list(row.time)[:9] == ["median_us", "ci_low_us", "ci_high_us", "samples", "launch_us", "end_to_end_us", "mode",
                                  "roofline", "peers"]  # fmt: skip
    (peer,) = row.time["peers"]
    assert {"name", "median_us", "ratio", "ci_low", "ci_high", "verdict"} <= set(peer)
    assert row.time["median_us"] > 0 and peer["ci_low"] <= peer["ratio"] <= peer["ci_high"]
    assert row.time["provenance"]["operator"]["file"].endswith("row_sum.py")
    assert "cold" in row.time["mode"] and "16 sets of inputs" in row.time["mode"]


def test_warm_caches_and_seeds_are_said():
    row = time(work_of("row_sum", M=64, N=64), steps.build(work_of("row_sum", M=64, N=64)), (),
               {**OPTIONS, "cache": "warm", "seed": 7})  # fmt: skip
    assert row.time is not None and "warm" in row.time["mode"] and "2 sets of inputs" in row.time["mode"]
    assert row.time["provenance"]["seed"] == 7 == row.time["options"]["seed"]


def test_a_target_without_silicon_here_is_not_timed():
    row = timed(work_of("row_sum", "hip:gfx942", M=64, N=64))
    assert row.time is None and row.error is not None and row.error["kind"] == "not-timed"


# ---- the table


def test_the_table_of_times_is_narrow_and_leaves_out_nothing():
    t = {
        "median_us": 67.812, "ci_low_us": 67.7, "ci_high_us": 67.9, "samples": 812, "launch_us": 2.1, "end_to_end_us": 75.0,
        "mode": "cold: caches flushed before each sample; one call per sample; 2 sets of inputs in turns",
        "roofline": {"share_of_measured_copy": 0.955, "measured_copy_gbs": 4250.0, "share_of_stated_peak": 0.845,
                     "stated": {"product": "h200", "bandwidth": {"value": 4.8e12, "unit": "B/s", "share": 0.845}},
                     "limiter": "memory", "gbs": 3958.0, "gflops": 5000.0},
        "peers": [{"name": "torch.eager", "median_us": 1047.3, "ci_low_us": 1046.0, "ci_high_us": 1048.0, "ratio": 15.44,
                   "ci_low": 15.4, "ci_high": 15.5, "verdict": "FASTER", "form": "F.rms_norm(x, x.shape[-1:], w, eps)"},
                  {"name": "torch.compile", "median_us": 67.9, "ci_low_us": 67.8, "ci_high_us": 68.0, "ratio": 1.0013,
                   "ci_low": 0.999, "ci_high": 1.003, "verdict": "SAME", "mode": "default", "compile_s": 3.21},
                  {"name": "numpy", "error": "numpy is not here"}],
        "empty_us": 1.45, "overhead_us": 12.5, "suspicions": ["work on another stream"], "throttled": 3, "stopped": "width",
        "clocks": {"before": {"clock_mhz": 1980, "temperature_c": 33}, "after": {"clock_mhz": 1965, "temperature_c": 41,
                                                                                 "throttled": True, "reason": "power"}},
    }  # fmt: skip
    row = Row("rms_norm", "cuda:h200", device="NVIDIA H200", shape={"M": 8192, "N": 8192}, dtype="bf16", time=t)
    failed = Row("rms_norm", "cuda:sm_120", dtype="bf16", error={"kind": "not-timed", "message": "no silicon", "hint": ""})
    text = times_text([row, failed])
    assert max(map(len, text.splitlines())) <= 80
    for part in ("67.81 [67.70, 67.90]", "15.44x [15.40, 15.50] FASTER", "1.001x [0.999, 1.003] SAME", "numpy is not here",
                 "95.5% of the measured copy (4250 GB/s)", "84.5% of the stated 4800 GB/s of h200", "812 samples, 3 of them",
                 "launch 2.100 us, end to end 75.00 us", "1980 to 1965 MHz", "throttled: power", "work on another stream",
                 "mode default, compiled in 3.2 s (not timed)", "no silicon"):  # fmt: skip
        assert part in " ".join(text.split())
    assert times_text([]) == "no rows"
