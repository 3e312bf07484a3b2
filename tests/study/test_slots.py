"""The slots: environments apart, follow-up tasks, crashes that cost one task."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from portakern.study.slots import Slots, SlotTask, room
from portakern.study.turns import Turn
from portakern.tools.processors import processors
from portakern.tools.workers import Job, Outcome


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def nothing(task: SlotTask, outcome: Outcome) -> list[SlotTask]:
    return []


def test_a_room_is_a_language_with_its_environment():
    tasks = [SlotTask(room(language, {"PK_ROOM": value}), Job((language, n), "jobs:room_of", ("PK_ROOM",)))
             for n in range(3) for language, value in (("a", "one"), ("b", "two"))]  # fmt: skip
    with Slots(2) as slots:
        found = [(str(o.id)[2], *o.unwrap()) for o in slots.run(tasks, nothing)]
    assert {(language, value) for language, value, _ in found} == {("a", "one"), ("b", "two")}
    assert not {pid for language, _, pid in found if language == "a"} & {pid for language, _, pid in found if language == "b"}


def test_tasks_share_the_processors_but_those_that_are_alone(monkeypatch: pytest.MonkeyPatch):
    """Threads of as many processes as there are processors, each with as many, wait for one another in a loop."""
    for said in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(said, raising=False)

    def threads(count: int, turn: Turn | None = None) -> str:
        task = SlotTask(room("a", {}), Job(0, "jobs:room_of", ("OPENBLAS_NUM_THREADS",)), turn=turn)
        with Slots(count) as slots:
            return next(o.unwrap()[0] for o in slots.run([task], nothing))

    assert threads(2) == str(max(1, processors() // 2)) and threads(1000) == "1"
    assert threads(1) == "" == threads(2, Turn("tests", alone=True))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads(2) == ""


def test_what_follows_is_done_too():
    def follow(task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        n = task.job.id
        return [SlotTask(task.room, Job(n - 1, "jobs:slow", (0.0,)))] if n else []  # type: ignore[operator]

    with Slots(2) as slots:
        done = [o.id for o in slots.run([SlotTask(room("a", {}), Job(3, "jobs:slow", (0.0,)))], follow)]
    assert done == [3, 2, 1, 0]


@pytest.mark.parametrize(("kind", "stays"), [("", True), ("incorrect", True), ("device-lost", False), ("timeout", False)])
def test_a_process_whose_device_may_be_hanging_is_not_used_again(kind: str, stays: bool):
    jobs = [Job(n, "jobs:told", (kind if n == 0 else "",)) for n in range(2)]
    with Slots(1) as slots:
        first, second = (o.unwrap().method for o in slots.run([SlotTask(room("a", {}), j) for j in jobs], nothing))  # type: ignore[attr-defined]
    assert (first == second) == stays


def test_a_crash_costs_one_task_and_a_deadline_another():
    jobs = [Job("crash", "jobs:crash"), Job("slow", "jobs:slow", (30,), timeout_s=0.3), Job("fine", "jobs:slow", (0.0,))]
    with Slots(1) as slots:
        found = {o.id: o for o in slots.run([SlotTask(room("a", {}), j) for j in jobs], nothing)}
    assert found["crash"].error is not None and found["crash"].error.kind == "crash"
    assert found["slow"].error is not None and found["slow"].error.kind == "timeout"
    assert found["fine"].error is None
    assert sys.modules.get("jobs") is None  # nothing ran here


def test_what_one_worker_holds_no_other_slot_takes():
    held = [SlotTask(room("tpu", {}), Job(n, "jobs:room_of", ("X",)), by_one=True) for n in range(6)]
    free = [SlotTask(room("a", {}), Job(10 + n, "jobs:room_of", ("X",))) for n in range(6)]
    slow = [SlotTask(room("b", {}), Job(20 + n, "jobs:slow", (0.2,))) for n in range(2)]
    with Slots(3) as slots:
        found = {o.id: o.unwrap() for o in slots.run([*held[:3], *free, *slow, *held[3:]], nothing)}
    assert len({found[n][1] for n in range(6)}) == 1
    assert len(found) == 14


def test_what_a_worker_held_is_free_when_it_has_ended():
    def again(task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        return [SlotTask(task.room, Job(1, "jobs:told", ("",)), by_one=True)] if outcome.id == 0 else []

    with Slots(2) as slots:
        found = list(slots.run([SlotTask(room("tpu", {}), Job(0, "jobs:told", ("device-lost",)), by_one=True)], again))
    assert [o.id for o in found] == [0, 1] and found[0].unwrap().method != found[1].unwrap().method  # type: ignore[attr-defined]
