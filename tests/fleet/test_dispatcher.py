"""A dispatcher whose Ray is scripted: what a lost node held is asked for anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portakern.fleet import dispatcher
from portakern.fleet.dispatcher import LOST_S, Dispatcher
from portakern.fleet.places import Folder
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.jobs.store import JobStore
from portakern.study.candidate import Candidate

pytestmark = pytest.mark.quick


class Remote:
    """A function of Ray's: each call is a new reference."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def options(self, **_: Any) -> Remote:
        return self

    def remote(self, *_: Any) -> int:
        self.asked.append(len(self.asked))
        return self.asked[-1]


def test_a_job_that_a_cut_network_swallowed_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    nodes = {"a", "b"}
    cancelled: list[Any] = []
    seen = {"CPU": 1.0, "host": 1.0, "cpp:cpu": 1.0}
    fake = SimpleNamespace(
        init=lambda **_: None, remote=lambda **_: lambda _function: Remote(),
        cancel=lambda reference, force: cancelled.append(reference),
        nodes=lambda: [{"NodeID": n, "Alive": True, "NodeManagerAddress": n, "Resources": seen} for n in sorted(nodes)],
    )  # fmt: skip
    monkeypatch.setitem(__import__("sys").modules, "ray", fake)
    monkeypatch.setattr(dispatcher, "time", SimpleNamespace(time=lambda: now[0], sleep=lambda _s: None))
    folder = Folder(tmp_path)
    task = TaskSpec("cpp:cpu", operator="softmax", dtype="f32", values={"M": 8, "N": 33})
    JobStore(folder.store).ask([Job(task, Candidate("text"), "quick")])
    made = Dispatcher(folder, "nowhere", "auto")

    def turn(seconds: float) -> list[int]:
        now[0] += seconds
        have = made._look()
        made._give_up()
        made._fill(have)
        return made._judged.asked

    assert turn(2) == [0] and turn(10 * LOST_S) == [0]  # slow, and nobody is lost
    nodes.remove("b")
    assert turn(2) == [0] and turn(LOST_S - 1) == [0] and cancelled == []
    assert turn(2) == [0, 1] and cancelled == [0]
    assert turn(10 * LOST_S) == [0, 1]
