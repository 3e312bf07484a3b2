"""A server's side of a fleet: what goes into the store and what comes out of it; no node is here, the test tells the rows."""

from __future__ import annotations

import time

import pytest

from portakern.errors import PortakernError
from portakern.fleet.fleet import Fleet
from portakern.fleet.places import Folder, write
from portakern.jobs.described import Described
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.jobs.tracing import traced
from portakern.serve.bench import Ticket
from portakern.serve.fleet_bench import FleetBench
from portakern.study.candidate import Candidate
from tests.serve.support import until

pytestmark = pytest.mark.quick

TASK = TaskSpec("cpp:cpu", operator="softmax", dtype="f32", values={"M": 4, "N": 5})


@pytest.fixture(scope="module")
def made() -> Described:
    return traced(TASK)


@pytest.fixture
def fleet(tmp_path) -> Fleet:
    now = time.time()
    state = {"at": now, "nodes": [], "resources": {"cpp:cpu": 1.0}, "seen": {"cpp:cpu": now, "compiler pallas:v6e": now}}
    write(Folder(tmp_path).whole, state)
    return Fleet(tmp_path)


@pytest.fixture
def bench(fleet):
    found = FleetBench(str(fleet.folder.path))
    yield found
    found.close()


def ticket(made: Described, text: str = "text", seconds: float = 60.0, target: str = "cpp:cpu") -> Ticket:
    task = TaskSpec(target, operator="softmax", dtype="f32", values={"M": 4, "N": 5})
    return Ticket(Job(task, Candidate(text)), made, time.monotonic() + seconds)


def tell(fleet: Fleet, asked: Ticket, method: str) -> None:
    fleet.store.begun(asked.job.digest)
    fleet.store.tell(asked.job.digest, asked.made.work.row.but(correct=True, method=method), "here", 1.0)


def test_rows_come_out_of_the_store(fleet, bench, made):
    first, second, same = ticket(made, "a"), ticket(made, "b"), ticket(made, "a")
    bench.put([first, second, same])
    assert [j.candidate.source for j in fleet.store.open_jobs()] == ["a", "b"]
    tell(fleet, first, "of a")
    assert first.future.result(10) == same.future.result(10) and not second.future.done()
    fleet.store.begun(second.job.digest)
    until(lambda: second.future.running())
    tell(fleet, second, "of b")
    assert second.future.result(10).method == "of b"
    late = ticket(made, "a")
    bench.put([late])
    assert late.future.result(10).method == "of a"


def test_a_job_that_somebody_else_waits_for_is_not_withdrawn(fleet, bench, made):
    mine, other, alone = ticket(made, "a"), ticket(made, "a"), ticket(made, "b")
    bench.put([mine, other, alone])
    for cancelled in (mine, alone):
        bench.cancel(cancelled)
        assert cancelled.future.cancelled()
    assert [j.candidate.source for j in fleet.store.open_jobs()] == ["a"]
    tell(fleet, other, "judged")
    assert other.future.result(10).correct is True


def test_what_runs_and_is_cancelled_is_told_so_at_once(fleet, bench, made):
    asked = ticket(made)
    bench.put([asked])
    fleet.store.begun(asked.job.digest)
    until(lambda: asked.future.running())
    bench.cancel(asked)
    assert (asked.future.result(0).error or {})["kind"] == "cancelled"


def test_a_deadline_is_kept_though_no_node_answers(fleet, bench, made):
    asked = ticket(made, seconds=0.2)
    bench.put([asked])
    assert (asked.future.result(10).error or {})["kind"] == "deadline"
    assert list(fleet.store.open_jobs()) == []


def test_what_no_node_has_is_answered_at_once(fleet, bench, made):
    assert bench.targets() == {"cpp:cpu", "pallas:v6e"}
    compiled = ticket(made, target="pallas:v6e")
    bench.put([compiled])
    assert (compiled.future.result(10).error or {})["kind"] == "no-such-target"


def test_a_fleet_that_is_down_is_said_to_be(tmp_path):
    with pytest.raises(PortakernError, match="no fleet is up"):
        FleetBench(str(tmp_path / "nowhere"))


def test_a_target_that_was_there_long_ago_does_not_count(fleet):
    state = dict(fleet.folder.state())
    write(fleet.folder.whole, {**state, "seen": {"cpp:cpu": time.time() - 3600}})
    assert fleet.has() == {}
    (digest,) = fleet.submit([Job(TASK, Candidate("text"))])  # it has not said what it has: the dispatcher will answer
    assert fleet.store.kept([digest])[digest].row is None
