"""Kernels that hang, crash or cheat: each ends as a row with an error, and nothing else suffers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study.judge import judge
from portakern.study.keeping import Keeper
from portakern.study.row import Row
from portakern.study.store import ResultStore
from portakern.study.work import Problem, Work, works

LATER = 200
"""Calls after which a kernel turns bad: more than checking and preparing make, fewer than the loop does."""

HONEST = """
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>
static long calls = 0;
static void honest(const float* x, float* out) {
    for (int m = 0; m < 64; ++m) {
        float sum = 0;
        for (int n = 0; n < 64; ++n) sum += x[m * 64 + n];
        out[m] = sum;
    }
}
"""

TIMING = {"options": {"budget_s": 0.5}}


def kernel(body: str) -> str:
    return f'{HONEST}\nextern "C" void row_sum(const float* x, float* out) {{\n    ++calls;\n    {body}\n}}\n'


@pytest.fixture(scope="module")
def work() -> Work:
    (made,) = works(Problem(load_operator("row_sum"), {"M": 64, "N": 64}, {}), [registry().target("cpp:cpu")], ["f32"])
    return made


def judged(work: Work, body: str, timeout_s: float = 40.0, **more) -> Row:
    return judge(work, kernel(body), timeout_s=timeout_s, timing=TIMING, **more)


def test_an_honest_kernel_is_timed_and_kept(work: Work, tmp_path: Path):
    store = ResultStore(tmp_path / "results.sqlite")
    row = judged(work, "honest(x, out);", sink=Keeper(store, pytest.fail))
    assert row.evidence == "timed" and row.error is None and row.time is not None
    assert row.time["ci_low_us"] <= row.time["median_us"] <= row.time["ci_high_us"]
    assert len(row.time["samples_us"]) == row.time["samples"] >= 10
    (kept,) = store.select(samples=True)
    assert row.secret and kept.row.secret == row.secret
    assert kept.row.time is not None and kept.row.time["samples_us"] == row.time["samples_us"]
    assert {"taken", "device", "driver", "operator"} <= set(kept.row.time["provenance"])
    assert kept.row.environment is not None and kept.row.environment["libraries"]["numpy"]


@pytest.mark.parametrize(("body", "kind", "says"), [
    ("std::memset(out, 0, 64 * sizeof(float));", "incorrect", "elements wrong"),
    (f"honest(x, out); if (calls > {LATER}) out[7] += 1;", "unstable", "wrong"),
    (f"if (calls < {LATER}) honest(x, out);", "unstable", "never written"),
    (f"honest(x, out); if (calls > {LATER}) std::memset(out, 0, 64 * sizeof(float));", "unstable", "0 instead of"),
    (f"honest(x, out); float* y = const_cast<float*>(x); float y0 = y[0]; if (calls > {LATER}) {{ y[0] = y[1]; y[1] = y0; }}",
     "unstable", "input x was changed"),
    (f"static std::map<const float*, std::vector<float>> known; auto& kept = known[x];"
     f"if (calls < {LATER}) {{ honest(x, out); kept.assign(out, out + 64); }}"
     f"else if (kept.empty()) honest(x, out); else std::memcpy(out, kept.data(), 256);", "unstable", "elements wrong"),
])  # fmt: skip
def test_outputs_that_are_not_computed_each_time_are_seen(work: Work, body: str, kind: str, says: str):
    row = judged(work, body)
    assert row.error is not None and row.time is None, row
    assert row.error["kind"] == kind and says in row.error["message"], row.error


@pytest.mark.parametrize(("body", "kind", "reached"), [
    ("for (volatile int go = 1; go;) {}", "timeout", "compiled"),
    (f"honest(x, out); if (calls > {LATER}) for (volatile int go = 1; go;) {{}}", "timeout", "executed"),
    ("*(volatile int*)8 = 1;", "crash", "compiled"),
    (f"honest(x, out); if (calls > {LATER}) *(volatile int*)8 = 1;", "crash", "executed"),
])
def test_a_hang_or_a_crash_is_a_row_within_its_deadline(work: Work, tmp_path: Path, body: str, kind: str, reached: str):
    store = ResultStore(tmp_path / "results.sqlite")
    begun = time.monotonic()
    row = judged(work, body, timeout_s=6.0, sink=Keeper(store, pytest.fail))
    assert time.monotonic() - begun < 45
    assert row.error is not None and row.error["kind"] == kind, row.error
    assert row.evidence == reached and row.time is None
    assert store.check() == "ok" and store.select() == ()
