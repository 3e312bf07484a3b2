"""Worker processes: whatever a job does, its outcome comes back and the next job runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import portakern
from portakern.errors import MissingRuleError
from portakern.tools import workers
from portakern.tools.workers import Job, WorkerFault, WorkerPool

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def jobs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


def fault(pool: WorkerPool, function: str, *args: object, timeout_s: float = 20.0) -> WorkerFault:
    """The fault of one job, after which the pool must still work."""
    (outcome,) = pool.run([Job("job", f"worker_jobs:{function}", args, timeout_s=timeout_s)])
    assert outcome.id == "job" and isinstance(outcome.error, WorkerFault)
    assert pool.call("worker_jobs:echo", "still here") == "still here"
    return outcome.error


def test_values_come_back_from_one_lasting_process(pool: WorkerPool):
    assert pool.call("worker_jobs:echo", {"a": [1, 2.5, b"x"]}) == {"a": [1, 2.5, b"x"]}
    first, second = pool.call("worker_jobs:pid"), pool.call("worker_jobs:pid")
    assert first == second != os.getpid()


def test_a_worker_needs_no_folder_in_which_portakern_is_found(monkeypatch: pytest.MonkeyPatch):
    """As in a jail that keeps the folder from being listed."""
    ours = Path(portakern.__file__).parents[1]
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p or ".").resolve() != ours.resolve()])
    with WorkerPool(1) as pool:
        assert pool.call("worker_jobs:echo", 1) == 1


def test_large_payloads_pass_both_ways(pool: WorkerPool):
    payload = os.urandom(1 << 20) * 20
    assert pool.call("worker_jobs:echo", payload) == payload


def test_jobs_spread_over_workers_and_come_as_completed():
    with WorkerPool(2) as pool:
        for _ in pool.run([Job(i, "worker_jobs:pid") for i in range(2)]):
            pass
        jobs = [Job("slow", "time:sleep", (0.5,)), *(Job(i, "worker_jobs:echo", (i,)) for i in range(5))]
        outcomes = list(pool.run(jobs))
    assert [outcome.id for outcome in outcomes] == [0, 1, 2, 3, 4, "slow"]
    assert [outcome.value for outcome in outcomes[:5]] == [0, 1, 2, 3, 4]
    assert 0.4 < outcomes[-1].seconds < 5


def test_each_pool_has_its_environment_and_preloads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PK_GONE", "1")
    with WorkerPool(env={"PK_HERE": "yes", "PK_GONE": None}, preload=("colorsys",)) as pool:
        assert pool.call("worker_jobs:variable", "PK_HERE") == "yes"
        assert pool.call("worker_jobs:variable", "PK_GONE") is None
        assert pool.call("worker_jobs:preloaded", "colorsys") is True
        assert pool.call("worker_jobs:preloaded", "numpy") is False


def test_our_own_errors_arrive_whole(pool: WorkerPool):
    with pytest.raises(MissingRuleError) as caught:
        pool.call("worker_jobs:refuse")
    assert caught.value.to_dict() == {
        "kind": "missing-rule", "message": "op.py:3: no rule\n  - sort (op.py:3)", "hint": "write one"
    }  # fmt: skip
    assert caught.value.missing == ("sort (op.py:3)",)


def test_an_exception_is_a_fault_with_its_traceback(pool: WorkerPool):
    error = fault(pool, "stumble")
    assert error.kind == "exception"
    assert "ValueError: a reason of its own" in error.message
    assert "in stumble" in error.log


def test_what_cannot_be_pickled_is_a_fault(pool: WorkerPool):
    assert "pickle" in fault(pool, "return_what_cannot_travel").message
    assert "no rule" in fault(pool, "refuse_with_baggage").message


def test_an_unknown_function_is_a_fault(pool: WorkerPool):
    assert "no_such_function" in fault(pool, "no_such_function").message


def test_a_segmentation_fault_is_a_result(pool: WorkerPool):
    error = fault(pool, "read_null")
    assert (error.kind, error.signal) == ("crash", "SIGSEGV")
    assert "in read_null" in error.log


def test_an_abort_is_a_result_with_its_last_words(pool: WorkerPool):
    error = fault(pool, "say_then_abort")
    assert (error.kind, error.signal) == ("crash", "SIGABRT")
    assert "last words" in error.log


def test_leaving_the_process_is_a_result(pool: WorkerPool):
    error = fault(pool, "leave", 7)
    assert (error.kind, error.signal) == ("crash", "")
    assert "exit status 7" in error.message
    assert fault(pool, "plain_exit").kind == "exception"


def test_a_hang_is_ended_with_everything_it_started(pool: WorkerPool, tmp_path: Path):
    pool.call("worker_jobs:pid")
    started = time.monotonic()
    error = fault(pool, "hang_with_child", str(tmp_path / "pids"), timeout_s=0.7)
    assert time.monotonic() - started < 10
    assert error.kind == "timeout" and "within 0.7 s" in error.message
    assert "in hang_with_child" in error.log
    assert all(gone_soon(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_noise_does_not_disturb_and_belongs_to_its_job(pool: WorkerPool):
    noisy, quiet = pool.run([Job(1, "worker_jobs:make_noise"), Job(2, "worker_jobs:echo", ("x",))])
    assert noisy.value == "quiet value"
    assert all(text in noisy.log for text in ("from print", "from fd 1", "from fd 2", "from a child"))
    assert (quiet.value, quiet.log) == ("x", "")


def test_memory_is_limited():
    if sys.platform != "linux":
        pytest.skip("only Linux limits anonymous memory by RLIMIT_DATA")
    with WorkerPool(memory_bytes=400 << 20) as pool:
        assert fault(pool, "allocate", 1 << 30).kind == "memory"
        assert pool.call("worker_jobs:allocate", 1 << 20) == 1 << 20


def test_a_worker_that_cannot_start_fails_its_jobs_once():
    with WorkerPool(2, preload=("worker_jobs_missing",)) as pool:
        outcomes = list(pool.run(Job(i, "worker_jobs:pid") for i in range(50)))
    assert len(outcomes) == 50
    assert {outcome.error.kind for outcome in outcomes if outcome.error} == {"worker-start"}
    assert "worker_jobs_missing" in str(outcomes[0].error)


def test_a_worker_killed_while_idle_is_replaced(pool: WorkerPool):
    pid = pool.call("worker_jobs:pid")
    os.kill(pid, signal.SIGKILL)
    assert gone_soon(pid)
    assert pool.call("worker_jobs:pid") != pid


def test_leaving_early_ends_what_is_under_way(tmp_path: Path):
    with WorkerPool(2) as pool:
        jobs = [Job("hang", "worker_jobs:hang_with_child", (str(tmp_path / "pids"),)), Job("quick", "time:sleep", (1,))]
        running = pool.run(jobs)
        assert next(running).id == "quick"
        running.close()
        assert all(gone_soon(int(pid)) for pid in (tmp_path / "pids").read_text().split())
        assert pool.call("worker_jobs:echo", 1) == 1


_PARENT = """
import sys
sys.path.insert(0, sys.argv[1])
from portakern.tools.workers import Job, WorkerPool
pool = WorkerPool()
print(pool.call("worker_jobs:pid"), flush=True)
pool.call("time:sleep", 60)
"""


def test_workers_die_with_their_parent():
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(HERE)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        worker = int(parent.stdout.readline())
    time.sleep(0.1)
    parent.kill()
    parent.wait()
    assert gone_soon(worker)


_LEFT_TO_THE_END = """
import sys
sys.path.insert(0, sys.argv[1])
from portakern.tools.workers import WorkerPool
pool = WorkerPool()
print(pool.call("worker_jobs:pid"), flush=True)
"""


def test_a_pool_that_nobody_closed_ends_without_noise():
    done = subprocess.run([sys.executable, "-c", _LEFT_TO_THE_END, str(HERE)], capture_output=True, text=True, check=True)
    assert not done.stderr
    assert gone_soon(int(done.stdout))


def test_a_fork_does_not_end_the_workers_of_its_parent():
    with WorkerPool() as pool:
        pid = pool.call("worker_jobs:pid")
        child = os.fork()
        if not child:
            pool._ended()  # as the interpreter does at exit
            os._exit(0)
        os.waitpid(child, 0)
        assert pool.call("worker_jobs:pid") == pid


def gone_soon(pid: int) -> bool:
    stop = time.monotonic() + 5
    while time.monotonic() < stop:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_an_interpreter_that_was_started_early_is_a_worker(monkeypatch: pytest.MonkeyPatch):
    """With the environment of the pool, of which it knew nothing."""
    monkeypatch.setenv("REMOVED", "here")
    workers.expect_one("worker_jobs:echo", 0)
    workers.expect_one("worker_jobs:echo", 0)
    (early,) = workers._early
    with WorkerPool(2, env={"ADDED": "there", "REMOVED": None}) as pool:
        jobs = [Job(name, "os:getenv", (name,)) for name in ("ADDED", "REMOVED")]
        assert {o.id: o.value for o in pool.run(jobs)} == {"ADDED": "there", "REMOVED": None}
        assert early.begun.process in [w._process for w in pool._workers] and not workers._early
        assert pool.call("worker_jobs:echo", 1) == 1


@pytest.mark.parametrize("other", ["PYTHONHASHSEED", "folder", "path", "ended"])
def test_one_that_does_not_fit_is_not_taken(other: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    workers.expect_one("worker_jobs:echo", 0)
    (early,) = workers._early
    if other == "folder":
        monkeypatch.chdir(tmp_path)
    elif other == "path":
        monkeypatch.syspath_prepend(str(tmp_path))
    elif other == "ended":
        early.begun.process.kill()
        early.begun.process.wait(5)
    with WorkerPool(1, env={other: "1"} if other.isupper() else {}) as pool:
        assert pool.call("os:getcwd") == os.getcwd()
        assert early.begun.process not in [w._process for w in pool._workers] and workers._early == [early]
    workers._end_early()
    assert early.begun.process.poll() is not None
