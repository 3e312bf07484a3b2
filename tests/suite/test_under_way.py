"""Which rows of a suite are told when, and when the next task is imported."""

from __future__ import annotations

from typing import Any

import pytest

from portakern.errors import PortakernError
from portakern.study.row import Row
from portakern.study.slots import SlotTask, room
from portakern.study.turns import memory
from portakern.suite.adapter import TaskRef
from portakern.suite.importing import ImportedSample
from portakern.suite.rows import Before, SuiteRows
from portakern.suite.running import SuiteUnderWay
from portakern.suite.task_module import TaskModule
from portakern.tools.workers import Job, Outcome

ROW = Row("op", "a", evidence="emitted")


class Work:
    """Of a target, as a sample has one for each."""

    def __init__(self, target: str) -> None:
        self.target = target


class Rows(SuiteRows):
    """Rows that end with the outcome they are given."""

    def begin(self, index: int, work: Any) -> SlotTask:
        return SlotTask(room(work.target, {}), Job((index, "build"), ""))

    def follow(self, task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        self.finished(outcome.id[0], ROW)  # type: ignore[index]
        return []

    def forget(self, index: int) -> None:
        pass


def under_way(*names: str) -> SuiteUnderWay:
    tasks = [(TaskRef(n, "level1"), ("a", "b"), Job(("import", n), "")) for n in names]
    return SuiteUnderWay("suite", "reduced", tasks, Rows("checked"), known)


def known(task: TaskRef, target: str, number: int, sample: ImportedSample) -> Before:
    return Before(TaskModule("suite", None, task, "reduced", 0, number, sample.places))


def imported(count: int) -> tuple[ImportedSample, ...]:
    return tuple(ImportedSample((Work("a"), Work("b")), imported=True) for _ in range(count))


def test_samples_of_a_target_are_told_together_and_the_next_task_follows_the_last_row() -> None:
    way = under_way("first", "second")
    (first,) = way.begin(1)
    works = way.follow(first, Outcome(first.job.id, imported(2)))
    assert [w.room[0] for w in works] == ["a", "a", "b", "b"]
    assert not way.follow(works[1], Outcome(works[1].job.id)) and not way.taken(), "one of two samples"
    assert not way.follow(works[0], Outcome(works[0].job.id))
    assert [(r.task, r.target, r.sample) for r in way.taken()] == [("first", "a", 0), ("first", "a", 1)]
    assert not way.follow(works[2], Outcome(works[2].job.id))
    (second,) = way.follow(works[3], Outcome(works[3].job.id))
    assert second.job.id == ("import", "second") and len(way.taken()) == 2


@pytest.mark.parametrize("outcome", [
    Outcome(("import", "first"), error=PortakernError("timeout", "took too long")),
    Outcome(("import", "first"), (ImportedSample(error={"kind": "task", "message": "its own", "hint": ""}),))])
def test_a_task_that_is_not_imported_is_a_row_for_each_target(outcome: Outcome) -> None:
    way = under_way("first", "second")
    (first,) = way.begin(1)
    (second,) = way.follow(first, outcome)
    assert second.job.id == ("import", "second")
    assert [(r.target, r.stage, bool(r.error)) for r in way.taken()] == [("a", "task", True), ("b", "task", True)]


def test_a_task_that_lacked_memory_is_imported_again_where_it_has_all() -> None:
    way = under_way("first", "second")
    (first,) = way.begin(1)
    short = ImportedSample(error={"kind": "task", "message": "RuntimeError: you can't allocate memory: you tried", "hint": ""})
    (again,) = way.follow(first, Outcome(first.job.id, (short,)))
    assert again.job == first.job and again.needs == again.memory_bytes == memory().capacity and again.room != first.room
    (second,) = way.follow(again, Outcome(first.job.id, (short,)))
    assert second.job.id == ("import", "second") and [r.stage for r in way.taken()] == ["task", "task"]


def test_a_task_without_samples_is_followed_by_the_next() -> None:
    way = under_way("first", "second")
    (first,) = way.begin(1)
    (second,) = way.follow(first, Outcome(first.job.id, ()))
    assert second.job.id == ("import", "second") and not way.taken()
