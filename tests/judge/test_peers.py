"""A peer has a process that no kernel reaches, and nothing that a kernel started runs while it is timed."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

import portakern as pk
from portakern.study.row import Row
from tests.judge.attacks import cpp, numba
from tests.judge.judges import undisturbed
from tests.judge.test_timed import APART, OPTIONS, timed

PEER = """
import functools
import json
import os
import sys
from pathlib import Path

calls = 0

def threads(name):
    '''The states of the threads of all processes that are called so.'''
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == name:
                found += [(t / "stat").read_text().rpartition(")")[2].split()[0] for t in (process / "task").iterdir()]
        except OSError:
            continue
    return found

def note(x):
    told = {{"states": threads({name!r}), "cores": sorted(os.sched_getaffinity(0)), "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "by": os.getpid(),
            "planted": [v for v in os.environ if v == "PLANTED"] + [m for m in sys.modules if m == "planted"]}}
    with open({log!r}, "a") as stream:
        stream.write(json.dumps(told) + "\\n")
    return x.sum(1)

def plain(x):
    return x.sum(1)

def fails_later(x):
    global calls
    calls += 1
    if calls > 20:
        raise ValueError("had enough")
    return x.sum(1)

def ends_later(x):
    global calls
    calls += 1
    if calls > 20:
        os._exit(3)
    return x.sum(1)

def wrong(x):
    return x.sum(1) + 1

if {elsewhere}:
    from portakern.study.peer_calls import PeerCalls
    PeerCalls.beside = lambda self, peer: False
"""


def peer(folder: Path, function: str, name: str = "", elsewhere: bool = False) -> str:
    path = folder / "peer.py"
    path.write_text(PEER.format(name=name, log=str(folder / "log"), elsewhere=elsewhere))
    return f"{path}:{function}"


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def entries(row: Row) -> dict[str, dict[str, Any]]:
    assert row.time is not None, row.error
    return {p["name"].rpartition(":")[2]: p for p in row.time["peers"]}


PATCHES = numba("", """
import os
import sys
import numpy
numpy.sum = numpy.add.reduce = lambda *a, **k: 0
sys.modules["planted"] = sys
os.environ["PLANTED"] = "1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.setpriority(os.PRIO_PROCESS, 0, 19)
""".replace("numpy.add.reduce = ", ""))

SPINS = """
#include <thread>
static void spin() { for (volatile long i = 0;; ++i) {} }
static int begun = 0;
"""


def test_what_a_kernel_does_to_its_process_is_not_done_to_peers(tmp_path: Path):
    row = timed("numba:cpu", PATCHES, against=("numpy", peer(tmp_path, "note")))
    found = entries(row)
    assert {n: p.get("error") for n, p in found.items()} == {"numpy": None, "note": None}
    assert all(p["ratio"] > 0 and p["samples"] == row.time["samples"] for p in found.values())  # type: ignore[index]
    here = {"cores": sorted(os.sched_getaffinity(0)), "nice": os.getpriority(os.PRIO_PROCESS, 0), "planted": []}
    seen = told(tmp_path)
    assert len(seen) > 5 and all({k: t[k] for k in here} == here for t in seen)


@pytest.mark.usefixtures("whole_jail")
def test_all_that_a_kernel_started_stands_still_while_a_peer_is_timed(tmp_path: Path):
    name = f"spins{os.getpid()}"
    body = f"""if (!begun++) {{
        syscall(SYS_prctl, 15, "{name}");
        std::thread(spin).detach();
        if (!fork()) {{ setsid(); if (!fork()) std::thread(spin).join(); _exit(0); }}
    }}
    honest(x, out);"""
    row = timed("cpp:cpu", cpp(body, SPINS), against=(peer(tmp_path, "note", name),))
    assert entries(row)["note"]["ratio"] > 0
    states = [t["states"] for t in told(tmp_path)]
    assert sum(len(s) >= 3 for s in states) > 5
    assert {state for s in states for state in s} <= set("TZ")


def test_a_peer_that_fails_is_left_out_and_the_others_are_timed(tmp_path: Path):
    names = [peer(tmp_path, f) for f in ("fails_later", "wrong", "plain")]
    found = entries(timed("cpp:cpu", cpp("honest(x, out);"), against=(*names, "no.such", "numpy")))
    assert "had enough" in found["fails_later"]["error"] and "something else" in found["wrong"]["error"]
    assert found["plain"]["ratio"] > 0 and found["numpy"]["ratio"] > 0 and found["no.such"]["error"]


def test_peers_that_take_their_process_along_do_not_take_the_kernels_time(tmp_path: Path):
    row = timed("cpp:cpu", cpp("honest(x, out);"), against=(peer(tmp_path, "ends_later"), "numpy"))
    assert row.time is not None and row.time["median_us"] > 0
    assert all("exit status 3" in p["error"] for p in row.time["peers"])


def test_a_judge_makes_its_peers_once_for_all_kernels(tmp_path: Path):
    task = pk.task("row_sum", "cpp:cpu", dtype="f32", M=16, N=32)
    timing = {"against": (peer(tmp_path, "note"),), "options": OPTIONS}
    with pk.judge(task, workers=1, level="timed", timing=timing) as judge:
        rows = [undisturbed(functools.partial(judge.judge, cpp("honest(x, out);", more))) for more in ("", "// another")]
    assert all(entries(r)["note"]["ratio"] > 0 for r in rows)
    assert len({t["by"] for t in told(tmp_path)}) == 1


def test_peers_on_the_host_are_compared_with_whole_calls(tmp_path: Path):
    """As where a kernel runs on a device."""
    row = timed("numba:cpu", numba("", APART), against=(peer(tmp_path, "plain", elsewhere=True),))
    found = entries(row)["plain"]
    assert found["ratio"] > 0 and found["ours_us"] > 0 and "host" in found["measured"]


def test_as_many_blocks_are_taken_as_are_asked_for():
    row = timed("cpp:cpu", cpp("honest(x, out);"), against=("numpy",), max_samples=10, min_samples=5, width=0.0, budget_s=30.0)
    assert row.time is not None and row.time["stopped"] == "samples" and row.time["samples"] == 10, row.error
    assert entries(row)["numpy"]["samples"] == 10


LIES = """
import portakern.study.inside as inside
real = inside.Inside.refresh
def refresh(self, block, last):
    if {end} and block == 6:
        return False
    return real(self, block, {figures})
inside.Inside.refresh = refresh
"""


@pytest.mark.parametrize(("end", "figures"), [
    (True, "last"), (False, "[float('nan')]"), pytest.param(False, "[1e-9]", marks=pytest.mark.slow)])
def test_what_a_kernel_says_of_its_blocks_ends_them_at_most(end: bool, figures: str):
    row = timed("numba:cpu", numba("", LIES.format(end=end, figures=figures)), against=("numpy",))
    if row.time is None:
        assert row.error is not None and row.error["kind"] == "implausible-timing", row.error
    else:
        assert entries(row)["numpy"]["samples"] == row.time["samples"] >= 5


@pytest.mark.slow
def test_with_warm_caches_peers_are_timed_in_the_same_way(tmp_path: Path):
    row = timed("cpp:cpu", cpp("honest(x, out);"), against=("numpy",), cache="warm")
    assert entries(row)["numpy"]["ratio"] > 0
