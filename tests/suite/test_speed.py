"""fast_p is a share of all tasks, of those that are correct, by medians; what an interval leaves open is said."""

from __future__ import annotations

import pytest

from portakern.suite import report, speed
from portakern.suite.results import TaskRow


def entry(name: str, ratio: float, spread: float = 0.01, **more: object) -> dict[str, object]:
    return {"name": name, "ratio": ratio, "ci_low": ratio - spread, "ci_high": ratio + spread, **more}


def row(task: str, *peers: dict[str, object], correct: bool = True, **more: object) -> TaskRow:
    time = {"median_us": 10.0, "peers": list(peers)} if peers else None
    return TaskRow(**{"suite": "s", "task": task, "level": "l1", "target": "t", "size": "asked", "imported": True,
                      "correct": correct, "time": time, **more})  # type: ignore[arg-type]  # fmt: skip


ROWS = [
    row("twice", entry("torch.eager", 2.5), entry("torch.compile", 2.1), launches=1, peer_launches=2),
    row("half", entry("torch.eager", 3.0), entry("torch.compile", 0.45), launches=7, peer_launches=2),
    row("even", entry("torch.eager", 1.004, 0.02), {"name": "torch.compile", "error": "out of 12 GB"}, level="l2"),
    row("wrong", correct=False, error={"kind": "incorrect", "message": "off", "hint": ""}),
    row("untimed"),
]


def test_fast_p_is_a_share_of_all_tasks() -> None:
    said = speed.summary(speed.speeds(ROWS, "t"))
    assert said is not None and said["timed"] == 3
    eager, compiled, best = (said["against"][p]["fast_p"] for p in speed.AGAINST)
    assert eager == {"0": 0.8, "0.5": 0.6, "0.8": 0.6, "1": 0.6, "1.5": 0.4, "2": 0.4, "4": 0.0}
    assert compiled == {"0": 0.8, "0.5": 0.2, "0.8": 0.2, "1": 0.2, "1.5": 0.2, "2": 0.2, "4": 0.0}
    assert best["1"] == 0.4 and said["against"][speed.BEST]["open"] == 1
    assert said["against"]["torch.compile"]["geomean"] == pytest.approx((2.1 * 0.45) ** 0.5)
    assert said["levels"]["l2"]["torch.eager"]["fast_p"]["1"] == 1.0


def test_a_wrong_task_is_not_fast_however_fast_it_is() -> None:
    fast = row("fast", entry("torch.eager", 9.0), correct=False)
    said = speed.summary(speed.speeds([fast], "t"))
    assert said is not None and set(said["against"]["torch.eager"]["fast_p"].values()) == {0.0}


def test_the_better_peer_of_each_sample_counts_and_samples_are_a_mean() -> None:
    several = [row("a", entry("torch.eager", 4.0), entry("torch.compile", 8.0)),
               row("a", entry("torch.eager", 2.0), entry("torch.compile", 1.0), sample=1)]  # fmt: skip
    (found,) = speed.speeds(several, "t")
    assert found.ratios[speed.BEST].value == pytest.approx(2.0) and found.ratios["torch.compile"].value == pytest.approx(8**0.5)
    missing = [several[0], row("a", entry("torch.eager", 2.0), sample=1)]
    assert "torch.compile" not in speed.speeds(missing, "t")[0].ratios, "a mean over some of the samples is none"


def test_the_report_names_the_slowest_and_why_a_peer_is_missing() -> None:
    text = report.text(ROWS)
    assert "half: 0.45x [0.44, 0.46] torch.compile, 10 us, 7 launches, 2 of torch.compile" in text
    assert "twice:" not in text.split("slowest:")[1].split("beside")[0]
    assert "without torch.compile: out of # GB\n       even" in text
    assert "fast_1" not in report.text([row("untimed")]), "nothing is said of what was not timed"
