"""Verdicts of a gate on rows that nobody measured: intervals, what is wrong or missing now, what differs between the runs."""

from __future__ import annotations

import math
from typing import Any, get_args, get_type_hints

import pytest

from portakern.study.gate import FAILING, VERDICTS, common, gate, newest, passes, ratio_of, verdict
from portakern.study.row import Row
from portakern.study.row_fields import VerdictFields

pytestmark = pytest.mark.quick


def timed(median: float, half: float = 0.001, taken: str = "2026-11-20T12:00:00+00:00", **more: Any) -> Row:
    time = {"median_us": median, "ci_low_us": median * (1 - half), "ci_high_us": median * (1 + half), "mode": "cold: flushed",
            "options": {"budget_s": 1.0}, "clocks": {"before": None, "after": {"clock_mhz": 1500}}, "throttled": 0,
            "provenance": {"taken": taken, "device": {"version": "1.2"}, "fingerprint": "nvrtc 13"}}  # fmt: skip
    plain = Row("softmax", "cuda:sm_90a", device="NVIDIA H200", shape={"M": 4, "N": 8}, dtype="bf16", params={},
                evidence="timed", correct=True, time=time, environment={"machine_id": "a"})  # fmt: skip
    return plain.but(**more)


WITHOUT = timed(1.0).but(time=None, evidence="executed")


def failing(kind: str) -> Row:
    return WITHOUT.but(correct=None, error={"kind": kind, "message": "what happened", "hint": ""})


@pytest.mark.parametrize(("now", "half", "word"), [
    (1.0, 0.001, "same"), (1.02, 0.001, "same"), (0.98, 0.001, "same"), (1.05, 0.001, "regressed"), (2.0, 0.2, "regressed"),
    (0.9, 0.001, "improved"), (1.03, 0.02, "undecided"), (0.97, 0.02, "undecided"), (1.0, 0.2, "undecided"),
])  # fmt: skip
def test_a_verdict_goes_by_the_interval_and_leaves_a_margin(now: float, half: float, word: str):
    found = verdict(timed(1.0), timed(now, half))
    assert found.verdict == word and found.ratio == pytest.approx(now)


def test_the_interval_of_the_ratio_is_that_of_independent_medians():
    """For symmetric intervals on the logarithm the distances add as squares; both runs count alike."""
    def of(middle: float, half: float) -> dict[str, float]:
        return {"median_us": math.exp(middle), "ci_low_us": math.exp(middle - half), "ci_high_us": math.exp(middle + half)}

    ratio, low, high = ratio_of(of(1.0, 0.03), of(2.0, 0.04))
    assert [math.log(x) for x in (ratio, low, high)] == pytest.approx([1.0, 0.95, 1.05])
    back, low, high = ratio_of(of(2.0, 0.04), of(1.0, 0.03))
    assert [math.log(x) for x in (back, low, high)] == pytest.approx([-1.0, -1.05, -0.95])


def test_a_time_without_an_interval_decides_nothing():
    bare = timed(9.0)
    bare = bare.but(time={**(bare.time or {}), "ci_low_us": None, "ci_high_us": None})
    assert verdict(timed(1.0), bare).verdict == verdict(bare, timed(1.0)).verdict == "undecided"


@pytest.mark.parametrize(("before", "now", "word"), [
    (timed(1.0), timed(1.0, correct=False), "now wrong"),
    (WITHOUT, WITHOUT.but(correct=False, error={"kind": "incorrect", "message": "", "hint": ""}), "now wrong"),
    (timed(1.0), failing("compile"), "now failing"),
    (timed(1.0), failing("crash"), "now failing"),
    (timed(1.0), failing("unstable"), "now failing"),
    (timed(1.0), failing("tool-missing"), "missing"),
    (timed(1.0), failing("not-timed"), "missing"),
    (timed(1.0), None, "missing"),
    (timed(1.0), WITHOUT, "missing"),
    (WITHOUT, WITHOUT, "same"),
    (WITHOUT, timed(5.0), "same"),
    (WITHOUT, WITHOUT.but(correct=None), "missing"),
    (WITHOUT.but(correct=False), WITHOUT, "now right"),
    (WITHOUT.but(correct=False), WITHOUT.but(correct=False), "same"),
])  # fmt: skip
def test_what_is_right_wrong_or_not_there(before: Row, now: Row | None, word: str):
    found = verdict(before, now)
    assert found.verdict == word and (found.why or word == "now right")


def test_a_row_that_failed_before_it_was_timed_is_that_of_its_case():
    assert [v.verdict for v in gate([timed(1.0)], [failing("compile")])] == ["now failing"]


@pytest.mark.parametrize("change", [
    {"dtype": "f32"}, {"shape": {"M": 4, "N": 9}}, {"params": {"eps": 1.0}}, {"target": "cpp:cpu"},
    {"schedule": "m=1", "schedule_from": "given"},
])  # fmt: skip
def test_another_question_is_no_answer(change: dict[str, Any]):
    assert [v.verdict for v in gate([timed(1.0)], [timed(1.0, **change)])] == ["missing"]
    warm = timed(1.0)
    warm = warm.but(time={**(warm.time or {}), "mode": "warm: called before"})
    assert [v.verdict for v in gate([timed(1.0)], [warm])] == ["missing"]


def test_the_newest_row_of_a_case_counts():
    old, new = timed(1.0), timed(2.0, taken="2026-11-21T12:00:00+00:00")
    assert [*newest([new, old]).values()] == [new]
    assert [v.verdict for v in gate([new, old], [timed(2.0)])] == ["same"]


def test_other_machines_clocks_and_toolchains_are_said():
    assert verdict(timed(1.0), timed(1.0)).differs == ()
    now = timed(1.0, device="NVIDIA H100", environment={"machine_id": "b"})
    time = dict(now.time or {}) | {"clocks": {"after": {"clock_mhz": 1100}}, "throttled": 3}
    time["provenance"] = {**time["provenance"], "fingerprint": "nvrtc 14", "device": {"version": "1.3"}}
    found = verdict(timed(1.0), now.but(time=time)).differs
    assert [text.split()[0] for text in found] == ["machine", "silicon", "driver", "toolchain", "clock", "throttled"]
    assert common([verdict(timed(1.0), now)] * 2) == {"machine a -> b": 2, "silicon NVIDIA H200 -> NVIDIA H100": 2}


def test_what_passes():
    def of(*words: str) -> list[Any]:
        return [verdict(timed(1.0), timed(1.0)).__class__("op", "t", "", None, w) for w in words]

    assert passes(of("same", "improved", "undecided", "missing", "now right"))
    assert not any(passes(of("same", w)) for w in FAILING)
    assert not passes(of("missing", "missing")), "where nothing was measured nothing is passed"
    assert passes(of("same", "improved"), strict=True)
    assert not passes(of("same", "undecided"), strict=True) and not passes(of("same", "missing"), strict=True)


def test_the_form_knows_every_verdict():
    assert set(get_args(get_args(get_type_hints(VerdictFields, include_extras=True)["verdict"])[0])) == set(VERDICTS)
    assert set(verdict(timed(1.0), None).to_dict()) == set(VerdictFields.__annotations__)
