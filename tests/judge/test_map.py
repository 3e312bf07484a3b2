"""Warm processes judge as fresh ones do, and no kernel reaches the next one."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import portakern as pk
from portakern.backends.cuda.toolchain import CudaToolchain
from portakern.errors import CompileError, UsageError
from portakern.referee import nursery, zygote
from portakern.referee.nursery import Nursery, Zygote
from portakern.referee.zygote import Rehearsal
from portakern.registry import registry
from portakern.study.judging import Judge
from portakern.study.rehearsed import rehearsals_for
from tests.judge.attacks import cpp, numba
from tests.judge.judges import Judges, judge_for, task_of, undisturbed
from tests.judge.timed_attacks import TIMED

HONEST = {"cpp:cpu": cpp("honest(x, out);"), "numba:cpu": numba("")}
WRONG = {"cpp:cpu": cpp("honest(x, out); out[3] += 1;"), "numba:cpu": numba("out[3] += 1")}


@pytest.fixture(params=["cpp:cpu", "numba:cpu"])
def warm(request: pytest.FixtureRequest, whole_jail: None, judges: Judges) -> Judge:
    return judges(request.param)


# ---- one after the other -----------------------------------------------------------------------------------------------------

POISON = {
    "cpp:cpu": cpp("""honest(x, out);
    for (int f = 3; f < 256; ++f) { if (write(f, "poison", 6) < 0) continue; lseek(f, 0, SEEK_SET); }
    touch("/tmp/poison"); touch("/var/tmp/poison"); touch("/dev/shm/poison");
    for (int pid = 1; pid < 40000; pid += pid < 64 ? 1 : 997) if (pid != getpid()) {
        kill(pid, SIGSTOP); ptrace(PTRACE_ATTACH, pid, 0, 0);
        char name[64]; snprintf(name, sizeof name, "/proc/%d/mem", pid); open(name, O_RDWR);
    }"""),
    "numba:cpu": numba("", """
import builtins
import gc
import os
import tempfile
import socket
import sys
import numpy
import portakern.referee.runner as runner
import portakern.referee.shared as shared
runner.loaded = runner.answer
numpy.frombuffer = shared.mapped = None
builtins.open = None
for o in gc.get_objects():
    if isinstance(o, dict) and len(o) > 100 and "__name__" in o:
        o["poison"] = 1
    if isinstance(o, socket.socket):
        try:
            o.send(b"poison")
        except OSError:
            pass
for f in range(3, 256):
    try:
        os.write(f, b"poison" * 100)
    except OSError:
        pass
"""),
}


def test_a_kernel_that_poisons_its_process_reaches_no_other(warm: Judge):
    target = warm.work.target
    rows = list(warm.map([POISON[target], HONEST[target], WRONG[target]] * 3))
    assert [r.correct for r in rows[1::3]] == [True] * 3
    assert [r.error and r.error["kind"] for r in rows[2::3]] == ["incorrect"] * 3


BAD = {
    "cpp:cpu": {
        "timeout": cpp("for (;;) usleep(1000);"),
        "crash": cpp("*(volatile int*)8 = 1;"),
        "exit": cpp("_exit(0);"),
        "forks": cpp("for (int i = 0; i < 200; ++i) if (fork() == 0) { setsid(); sleep(60); } sleep(60);"),
    },
    "numba:cpu": {
        "timeout": numba("import time\nwhile True:\n    time.sleep(0.001)"),
        "exit": numba("import os\nos._exit(3)"),
        "drips": numba("import os\nimport time\nfor f in range(3, 64):\n    try:\n        os.write(f, b'\\x10')\n"
                       "    except OSError:\n        pass\ntime.sleep(60)"),
        "recursion": numba("def f():\n    f()\nf()"),
        "no text": "not Python at all (",
        "deep": "x = " + "(" * 5000 + ")" * 5000,
    },
}


@pytest.mark.parametrize("target", BAD)
def test_what_hangs_forks_or_exits_is_a_row_and_costs_its_time_only(target: str):
    texts = BAD[target]
    with judge_for(target, workers=1, timeout_s=2.5) as judge:
        judge.judge(HONEST[target])
        rows = dict(zip(texts, judge.map(texts.values()), strict=True))
        seats = [seat._pool._workers[0]._process.pid for seat in judge._seats]
        assert all(r.error is not None and not r.correct for r in rows.values()), rows
        assert rows["timeout"].error is not None and rows["timeout"].error["kind"] == "timeout", rows["timeout"].error
        assert judge.judge(HONEST[target]).correct
        assert seats == [seat._pool._workers[0]._process.pid for seat in judge._seats]  # none was lost


def test_a_lost_seat_is_made_anew():
    with judge_for("cpp:cpu", workers=1, level="quick") as judge:
        assert judge.judge(HONEST["cpp:cpu"]).correct
        for seat in judge._seats:
            for worker in seat._pool._workers:  # those that have begun
                worker._process.kill()
        assert all(r.correct for r in judge.map([HONEST["cpp:cpu"]] * 2))


def test_levels_say_what_they_rest_on(warm: Judge):
    target = warm.work.target
    compiled, quick, full = (warm.judge(HONEST[target], level=level) for level in ("compile", "quick", "full"))
    assert compiled.evidence == "compiled" and compiled.correct is None and compiled.resources
    assert quick.correct and "quick check (values" in (quick.method or "")
    assert full.correct and "quick" not in (full.method or "")
    assert warm.judge(WRONG[target], level="quick").correct is False


def test_a_timed_row_is_that_of_a_fresh_judgement(judges: Judges):
    judge = judges("cpp:cpu")
    row = undisturbed(lambda: judge.judge(HONEST["cpp:cpu"], level="timed"))
    wrong = judge.judge(WRONG["cpp:cpu"], level="timed")
    assert row.evidence == "timed" and row.time is not None and row.time["judged"]["us"] > 0, row.error
    assert wrong.time is None and wrong.error is not None and wrong.error["kind"] == "incorrect"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpp:cpu", "numba:cpu"])
def test_nothing_is_gained_by_knowing_that_one_is_timed(target: str, judges: Judges):
    attacks = [a for a in TIMED if a.target == target]
    for attack, row in zip(attacks, judges(target).map((a.text for a in attacks), level="timed"), strict=True):
        if attack.kind:
            assert row.error is not None and row.time is None, attack.name
            if row.correct:  # else it was found out before it was timed
                assert row.error["kind"] in attack.kind.split("|"), (attack.name, row.error)
                assert attack.says in row.error["message"], (attack.name, row.error)
        else:
            assert row.time is not None, (attack.name, row.error)


def test_without_a_jail_every_candidate_has_a_new_interpreter():
    with judge_for("cpp:cpu", workers=1, jail="off") as judge:
        row = judge.judge(HONEST["cpp:cpu"], level="quick")
    assert row.correct and "without a jail" in (row.method or "")


def test_a_secret_repeats_a_judgement(warm: Judge):
    text = HONEST[warm.work.target]
    one = warm.judge(text)
    again, other = warm.judge(text, secret=one.secret), warm.judge(text)
    assert one.max_error_ratio == again.max_error_ratio and one.secret == again.secret != other.secret


def test_legal_kernels_pass_in_their_order_however_many(warm: Judge):
    """Those under way are few, so that a generator may be endless."""
    target, taken = warm.work.target, []

    def endless() -> Iterator[str]:
        for i in itertools.count():
            taken.append(i)
            yield (WRONG if i % 3 == 2 else HONEST)[target]

    rows = list(itertools.islice(warm.map(endless(), level="quick"), 6))
    assert [r.correct for r in rows] == [True, True, False] * 2
    assert len(taken) <= 6 + warm.ahead


def test_rows_come_to_asynchronous_users(warm: Judge):
    target = warm.work.target

    async def one() -> bool | None:
        return (await asyncio.wrap_future(warm.submit(HONEST[target]))).correct

    async def all_of_them() -> list[bool | None]:
        return [row.correct async for row in warm.map([HONEST[target], WRONG[target]])]

    async def both() -> tuple[list[bool | None], bool | None]:
        found = await asyncio.gather(all_of_them(), one())
        return found[0], found[1]

    assert asyncio.run(both()) == ([True, False], True)


def test_a_judge_closes_at_once_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # tests beside this one have judges, too
    judge = judge_for("cpp:cpu", timeout_s=60.0)
    threads = [seat._thread for seat in judge._seats]
    hanging, waiting = judge.submit(BAD["cpp:cpu"]["timeout"]), [judge.submit(HONEST["cpp:cpu"]) for _ in range(20)]
    time.sleep(2.0)
    assert list(tmp_path.glob("portakern-judge*"))
    begun = time.monotonic()
    judge.close()
    assert time.monotonic() - begun < 20 and hanging.done() and all(w.done() for w in waiting)
    assert not any(t.is_alive() for t in threads)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="closed"):
        judge.submit(HONEST["cpp:cpu"])


def test_what_is_no_candidate_or_level_is_said_at_once(warm: Judge):
    for wrong in (lambda: warm.submit(cast(str, 3)), lambda: warm.submit("x", level="best"),
                  lambda: warm.submit("x", secret="0"), lambda: pk.judge("row_sum"),
                  lambda: pk.judge("row_sum", "cpp:cpu", workers=0)):  # fmt: skip
        with pytest.raises(UsageError):
            wrong()


# ---- zygotes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("preload", "why"), [
    ((), ""), (("tests.judge.unclean_threads",), "threads"), (("tests.judge.unclean_memory",), "shared memory"),
    (("tests.judge.unclean_child",), "children"), (("tests.judge.unclean_file",), "descriptor")])  # fmt: skip
def test_a_process_that_a_child_would_share_something_with_is_not_forked(preload: tuple[str, ...], why: str):
    import pickle

    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **registry().environment_for("cpp")}
    process = Zygote(variables, pickle.dumps(("cpp", preload, (None, None))))
    try:
        assert (why in " ".join(process.unclean)) if why else not process.unclean, process.unclean
    finally:
        process.close()


def test_a_rehearsal_runs_where_kernels_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch):
    """As where they are interpreted: else every one of them waits for what the first run sets up."""
    def refuses(self: Rehearsal) -> None:
        raise CompileError("not in this environment")

    monkeypatch.setattr(Rehearsal, "_compiled", refuses)
    performed, later = rehearsals_for(registry().target("numba:cpu"), "runtime")
    assert performed is not None and later is None
    ran: list[str] = []
    monkeypatch.setattr(zygote, "loaded", lambda source, binary, runner: SimpleNamespace(run=lambda *_: ran.append(runner)))
    performed.perform()
    assert ran == ["runtime"]


@pytest.mark.parametrize(("target", "runner", "opens", "ran_before", "ran_after"), [
    ("cuda:sm_90a", "simulator", False, "simulator", None),
    ("cuda:h200", "runtime", True, None, "runtime"),
    ("cuda:sm_90a", "simulator", True, None, "simulator"),
    ("triton:h200", "runtime", False, "", "runtime"),
    ("triton:h200", "simulator", False, "simulator", None),
    ("numba:cpu", "runtime", False, "runtime", None),
    ("sycl:cpu", "runtime", False, None, "runtime"),
])
def test_a_gpu_is_opened_by_children_alone(target: str, runner: str, opens: bool, ran_before: str | None, ran_after: str | None,
                                           monkeypatch: pytest.MonkeyPatch):  # fmt: skip
    """Neither a run nor a compiler that opens it comes before the fork; ``""`` is compiled and not run."""
    monkeypatch.setattr(CudaToolchain, "opens_devices", opens)
    before, after = rehearsals_for(registry().target(target), runner)
    assert (before and before.runner, after and after.runner) == (ran_before, ran_after)


def test_who_times_is_alone_and_goes_first():
    from portakern.study.turns import Turns

    turns, seen, inside = Turns("test"), [], threading.Event()

    def time_it() -> None:
        with turns.alone():
            seen.append("timed")

    def check() -> None:
        with turns.together():
            seen.append("checked")

    with turns.together(), turns.together():
        first = threading.Thread(target=time_it)
        first.start()
        while not turns._waiting:
            time.sleep(0.001)
        second = threading.Thread(target=check)
        second.start()
        inside.wait(0.05)
        assert not seen
    first.join()
    second.join()
    assert seen == ["timed", "checked"]


def test_one_judge_takes_several_operators_on_its_target(judges: Judges):
    judge, other = judges("cpp:cpu"), task_of("cpp:cpu", "softmax", {"M": 4, "N": 24})
    wrong, right = judge.map([HONEST["cpp:cpu"], other.starting_kernel], level="quick", work=other.work)
    assert right.correct and right.operator == "softmax", right.error
    assert not wrong.correct and wrong.error is not None
    with pytest.raises(UsageError, match="numba:cpu"):
        judge.judge(HONEST["cpp:cpu"], work=task_of("numba:cpu").work)


@pytest.mark.parametrize(("soon_s", "most", "ready"), [(0.0, 3, 3), (0.0, 1, 1), (60.0, 3, 1)])
def test_processes_that_kernels_wait_for_are_made_side_by_side(soon_s: float, most: int, ready: int, monkeypatch):
    """As far as there are processors for it."""
    monkeypatch.setattr(nursery, "_SOON_S", soon_s)
    with Nursery("cpp", registry().environment_for("cpp"), (), (None, None), most=most) as some:
        for _ in range(4):
            some.take("testing").close()
            some.prepare()
        assert len(some._ready) == ready
