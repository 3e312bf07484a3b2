"""What a row says of a step that met its limit of time: what did, how long it had, and what to do."""

from __future__ import annotations

import pytest

from portakern.backends.cpu.numba import toolchain
from portakern.errors import CompileError
from portakern.registry import registry
from portakern.study.row import Row
from portakern.study.steps import Build, emit
from portakern.study.under_way import RowsUnderWay
from portakern.tools.workers import Outcome, WorkerFault, WorkerPool
from tests.study.test_timing import work_of

pytestmark = pytest.mark.quick

LATE = WorkerFault("portakern.study.steps:build did not finish within 3 s and was ended", kind="timeout")


def told(step: str, runner: str = "runtime") -> Row:
    rows: list[Row] = []
    way = RowsUnderWay("checked", finished=lambda _, row: rows.append(row))
    work = work_of("softmax", "numba:cpu", M=4, N=8)
    task = way.begin(0, work)
    if step == "check":
        (task,) = way.follow(task, Outcome(task.job.id, Build(work.row, runner=runner), None))
    for more in way.follow(task, Outcome(task.job.id, None, LATE)):  # the row of a compiler is emitted again
        way.follow(more, Outcome(more.job.id, Build(work.row), None))
    (row,) = rows
    return row


@pytest.mark.parametrize(("step", "doing"), [("build", "compiling"), ("check", "running")])
def test_a_step_that_was_late_says_what_to_do(step: str, doing: str) -> None:
    error = told(step).error
    assert error is not None and error["kind"] == "timeout"
    assert error["message"] == f"{doing} softmax for numba:cpu did not finish within 3 s and was ended"
    assert "--limit" in error["hint"]


def test_a_simulator_that_was_late_asks_for_smaller_sizes() -> None:
    error = told("check", "simulator").error
    assert error is not None and "smaller sizes" in error["hint"]


def test_a_compiler_that_was_late_is_named_and_our_functions_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(self: WorkerPool, function: str, *_: object, **__: object) -> None:
        raise WorkerFault(f"{function} did not finish within 180 s and was ended", kind="timeout")

    monkeypatch.setattr(WorkerPool, "call", call)
    monkeypatch.delenv("PORTAKERN_NUMBA_WORKER", raising=False)
    work = work_of("softmax", "numba:cpu", M=4, N=8)
    source, _ = emit(work)
    chain = registry().language("numba").toolchain
    assert isinstance(chain, toolchain.NumbaToolchain)
    with pytest.raises(CompileError) as caught:
        chain.compile(source)
    assert caught.value.kind == "compile-timeout" and "--limit" in caught.value.hint
    message = caught.value.message
    assert message.startswith("compiling softmax for numba:cpu with numba ") and "portakern" not in message
    assert message.endswith(" did not finish within 180 s and was ended")
