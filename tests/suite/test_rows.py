"""The way of a suite's row to its time: what it waits for, what is not done again, and what becomes of peers that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.spec.load import load_operator
from portakern.study import steps
from portakern.study.slots import SlotTask
from portakern.study.turns import Turn
from portakern.study.work import Problem, works
from portakern.suite.adapter import TaskRef
from portakern.suite.results import TaskRow
from portakern.suite.rows import HOST, PEERS, Before, SuiteRows, Timed
from portakern.suite.task_module import TaskModule
from portakern.tools.workers import Outcome

(WORK,) = works(Problem(load_operator("softmax"), {"M": 4, "N": 8}, {}), [registry().target("numba:cpu")], ["f32"])
OF = TaskModule("suite", None, TaskRef("task", "level1"), "reduced", 0, 0, {"x": 0})
BUILT = replace(steps.emit_row(WORK), runner="runtime")
RIGHT = BUILT.row.but(correct=True, evidence="executed")


def rows(timed: Timed | None, found: TaskRow | None = None) -> tuple[SuiteRows, SlotTask, list[Any]]:
    ended: list[Any] = []
    made = SuiteRows("checked", finished=lambda index, row: ended.append(row), timed=timed)
    made.expect(0, Before(OF, found))
    return made, made.begin(0, WORK), ended


def to_time(made: SuiteRows, build: SlotTask) -> SlotTask:
    (check,) = made.follow(build, Outcome((0, "build"), BUILT))
    assert check.turn == Turn(HOST), "while it runs nobody times on the processor"
    (time,) = made.follow(check, Outcome((0, "check"), RIGHT))
    return time


def test_what_is_right_is_timed_alone_in_a_process_of_its_own() -> None:
    made, build, ended = rows(Timed(budget_s=6))
    time = to_time(made, build)
    assert build.turn == Turn(HOST) and time.turn == Turn(HOST, alone=True)
    assert time.room[0] != build.room[0] and time.job.function == "portakern.suite.timing:time"
    given = time.job.kwargs
    assert given["of"] is OF and given["against"] == list(PEERS) and given["options"]["budget_s"] == 2
    assert not made.follow(time, Outcome((0, "time"), RIGHT.but(evidence="timed", time={"median_us": 1.0}))) and ended[0].time


@pytest.mark.parametrize(("timed", "runner", "row"), [
    (None, "runtime", RIGHT), (Timed(), "simulator", RIGHT), (Timed(), "runtime", RIGHT.but(correct=False))],
    ids=["not asked", "no silicon", "wrong"])  # fmt: skip
def test_nothing_else_is_timed(timed: Timed | None, runner: str, row: Any) -> None:
    made, build, ended = rows(timed)
    (check,) = made.follow(build, Outcome((0, "build"), replace(BUILT, runner=runner)))
    assert not made.follow(check, Outcome((0, "check"), row)) and ended[0].time is None


def test_peers_are_given_up_one_by_one_and_the_row_only_after_them() -> None:
    made, build, ended = rows(Timed())
    time, died = to_time(made, build), Outcome((0, "time"), error=PortakernError("timeout", "took too long"))
    (second,) = made.follow(time, died)
    assert second.job.kwargs["against"] == ["torch.eager"] and "took too long" in second.job.kwargs["lost"]["torch.compile"]
    (third,) = made.follow(second, died)
    assert third.job.kwargs["against"] == [] and set(third.job.kwargs["lost"]) == set(PEERS)
    assert not made.follow(third, died) and ended[0].error["kind"] == "timeout" and ended[0].correct


def test_the_same_kernels_on_the_same_machine_are_not_checked_again() -> None:
    made, build, _ = rows(Timed())
    to_time(made, build)
    found = TaskRow("suite", "task", "level1", "numba:cpu", "reduced", correct=True, evidence="executed", max_error_ratio=0.5,
                    row={"kernels": made.kernels[0], "method": "as it was checked"})  # fmt: skip
    again, build, _ended = rows(Timed(), found)
    (time,) = again.follow(build, Outcome((0, "build"), BUILT))
    assert time.job.id == (0, "time")
    row = time.job.args[1].row
    assert (row.correct, row.max_error_ratio, row.method) == (True, 0.5, "as it was checked")
    other = replace(found, row={"kernels": "others"})
    again, build, _ = rows(Timed(), other)
    assert again.follow(build, Outcome((0, "build"), BUILT))[0].job.id == (0, "check")
