"""A job is kept once, and so is its row, whoever asks and tells how often."""

from __future__ import annotations

import threading

import pytest

from portakern.errors import UsageError
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.jobs.store import JobStore
from portakern.study.candidate import Candidate
from portakern.study.row import Row

pytestmark = pytest.mark.quick

TASK = TaskSpec("cpp:cpu", operator="softmax", values={"M": 4, "N": 5})


def job(text: str = "text", level: str = "full", **options) -> Job:
    return Job(TASK, Candidate(text), level, **options)


@pytest.fixture
def store(tmp_path) -> JobStore:
    return JobStore(tmp_path / "jobs.sqlite")


def test_a_job_comes_back_as_it_was(store):
    asked = Job(TASK, Candidate("int \udcff;", "entry"), "timed", 7.0, ("numpy",))
    assert store.ask([asked]) == 1
    (found,) = store.open_jobs()
    assert (found, found.digest) == (asked, asked.digest)


def test_the_same_job_is_kept_once(store):
    assert store.ask([job(), job(), job(level="quick"), job("other")]) == 3
    assert store.ask([job()]) == 0
    assert [j.candidate.source for j in store.open_jobs()] == ["text", "text", "other"]


def test_what_a_digest_says():
    assert len({job().digest, job("t").digest, job(level="quick").digest, job(limit_s=1.0).digest, job(again="1").digest,
                job(against=("numpy",)).digest}) == 6  # fmt: skip
    assert job().digest == Job(TASK, Candidate("text", note="another note"), "full").digest


def test_the_first_row_stays(store):
    store.ask([job()])
    first, second = (Row("softmax", "cpp:cpu", method=m) for m in ("first", "second"))
    assert store.tell(job().digest, first, "a", 1.0) is True
    assert store.tell(job().digest, second, "b", 1.0) is False
    kept = store.kept([job().digest])[job().digest]
    assert (kept.row, kept.place) == (first, "a")
    assert list(store.open_jobs()) == []


def test_a_row_of_what_nobody_asked_for_is_not_kept(store):
    store.ask([job()])
    assert store.tell("0" * 32, Row("softmax", "cpp:cpu"), "", 0.0) is False
    assert store.withdraw([job().digest]) == 1
    assert store.tell(job().digest, Row("softmax", "cpp:cpu"), "", 0.0) is False
    assert store.counts() == {"jobs": 0, "rows": 0, "open": 0}


def test_a_judged_job_is_not_withdrawn(store):
    store.ask([job()])
    store.tell(job().digest, Row("softmax", "cpp:cpu"), "", 0.0)
    assert store.withdraw([job().digest]) == 0


def test_many_that_tell_at_once_keep_one_row_each(store):
    jobs = [job(f"{n}") for n in range(20)]
    store.ask(jobs)
    firsts = []

    def tell(who: int) -> None:
        for j in jobs:
            firsts.append((j.digest, store.tell(j.digest, Row("softmax", "cpp:cpu", method=str(who)), "", 0.0)))

    threads = [threading.Thread(target=tell, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(d for d, first in firsts if first) == sorted(j.digest for j in jobs)


def test_open_jobs_are_those_that_nobody_has(store):
    jobs = [job(f"{n}") for n in range(5)]
    store.ask(jobs)
    found = store.open_jobs(but=[jobs[0].digest, jobs[3].digest], most=2)
    assert [j.candidate.source for j in found] == ["1", "2"]


def test_a_peer_that_is_a_file_is_refused():
    with pytest.raises(UsageError):
        job(against=("/tmp/x.py:f",))
