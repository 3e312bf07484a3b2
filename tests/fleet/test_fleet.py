"""A fleet of two nodes on this machine: rows once each, whoever is killed; devices one job at a time; nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("ray")

import portakern as pk
from portakern.errors import UsageError
from portakern.fleet.fleet import Fleet, down, join, up
from portakern.fleet.places import Folder
from portakern.fleet.processes import Process, alive, descendants, process
from portakern.fleet.resources import HOST, SILICON, Node
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.study.candidate import Candidate
from tests.serve.support import TASK, serving, until

ROOT = Path(__file__).parents[2]
DIMS = {"M": 8, "N": 33}
NODE = Node(1, 2, {HOST: 1.0, "cpp:cpu": 1.0, SILICON + "cpp:cpu": 1.0, "hip:gfx942": 1.0, "cuda:h200": 2.0,
                   SILICON + "cuda:h200": 2.0})  # fmt: skip
"""Its two GPUs stand in for ones that are not here."""


def spec(target: str) -> TaskSpec:
    return TaskSpec(target, operator="softmax", dtype="f32", values=DIMS)


def texts(target: str, count: int) -> list[str]:
    kernel = pk.task("softmax", target, dtype="f32", **DIMS).starting_kernel
    return [f"{kernel}\n// {n}\n" for n in range(count)]


def jobs(target: str, count: int, level: str = "quick") -> list[Job]:
    return [Job(spec(target), Candidate(text), level) for text in texts(target, count)]


def below(fleet: Fleet, word: str, role: str = "") -> list[Process]:
    """Processes of the fleet whose command begins with a word."""
    def command(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            return ""

    return [p for n in fleet.folder.nodes() if role in ("", n.role) for p in descendants(n.keeper.pid)
            if command(p.pid).rpartition("/")[2].startswith(word)]  # fmt: skip


@contextmanager
def two_nodes(folder: Path) -> Iterator[Fleet]:
    head = up(NODE, folder, port=0)
    try:
        join(head.address, NODE, folder, name="second")
        found = Fleet(folder)
        until(lambda: len(found.status()["nodes"]) == 2)
        yield found
    finally:
        all_of_it = [p for n in Folder(folder).nodes() for p in (n.keeper, *descendants(n.keeper.pid))]
        down(folder)
        assert not any(map(alive, all_of_it))


def rows_come_once_each_though_workers_are_killed(fleet):
    asked = jobs("cpp:cpu", 12)
    digests = fleet.submit([*asked, *asked[:5]])
    rows = {}
    killed = 0
    for digest, row in fleet.rows(digests, 120):
        assert digest not in rows
        rows[digest] = row
        if len(rows) == 4 and (workers := below(fleet, "ray::judged")):
            os.kill(workers[0].pid, signal.SIGKILL)
            killed += 1
    assert set(rows) == {j.digest for j in asked} and all(r.correct for r in rows.values()), rows
    assert killed and fleet.store.counts()["jobs"] >= 12
    begun = time.monotonic()
    assert dict(fleet.rows(fleet.submit(asked), 10)) == rows  # judged already
    assert time.monotonic() - begun < 5


def a_target_that_nobody_has_is_answered_at_once(fleet):
    (digest,) = fleet.submit(jobs("hip:gfx1201", 1))
    ((_, row),) = fleet.rows([digest], 5)
    assert row.error is not None and row.error["kind"] == "no-such-target"


def each_device_has_one_job_at_a_time_whose_worker_sees_no_other(fleet):
    """No such device is here, so that the kernels are only compiled; which device each job had is in its place."""
    digests = fleet.submit(jobs("cuda:h200", 6, "compile"))
    rows = dict(fleet.rows(digests, 120))
    assert {r.evidence for r in rows.values()} == {"compiled"}
    places = {kept.place.partition(" device ")[2] for kept in fleet.store.kept(digests).values() if kept.place}
    assert places <= {"0", "1"} and places


def a_server_hands_jobs_to_the_fleet(fleet):
    pytest.importorskip("fastapi")
    from portakern.serve.fleet_bench import FleetBench

    with serving(FleetBench(str(fleet.folder.path))) as client:
        assert {t["target"] for t in client.get("/v1/targets").json()["targets"]} == {"cpp:cpu", "hip:gfx942", "cuda:h200"}
        assert client.get("/v1/health").json()["fleet"]["up"] is True
        right, wrong = texts("cpp:cpu", 1)[0], "no C++"
        asked = {"task": TASK, "level": "quick", "candidates": [{"source": s} for s in (right, wrong, right)]}
        id = client.post("/v1/batches", json=asked).json()["id"]
        rows = [r["row"] for r in client.get(f"/v1/batches/{id}/results", params={"wait_s": 60}).json()["results"]]
        assert [r["correct"] for r in rows] == [True, None, True]
        answer = client.post("/v1/evaluate", json={"task": {**TASK, "target": "numba:cpu"}, "source": "x"})
        assert answer.json()["error"]["kind"] == "no-such-target"


def the_example_is_judged(fleet):
    command = [sys.executable, str(ROOT / "examples" / "fleet.py"), str(fleet.folder.path), "--count", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *counts, places = done.stdout.splitlines()
    assert counts == ["cpp:cpu incorrect: 1", "cpp:cpu right: 2", "hip:gfx942 incorrect: 1", "hip:gfx942 right: 2"]
    assert places.startswith("judged by ") and "nobody" not in places


def a_second_head_in_one_place_is_refused(fleet):
    with pytest.raises(UsageError, match="a fleet is up"):
        up(NODE, fleet.folder.path, port=0)


def hundreds_of_rows_under_kills_of_workers_and_of_the_head(fleet):
    """A worker every 10 s, and the head once."""
    asked = [*jobs("cpp:cpu", 200), *jobs("hip:gfx942", 200)]
    digests = fleet.submit(asked)
    begun = last = time.monotonic()
    head = False
    while fleet.store.counts()["open"]:
        assert time.monotonic() - begun < 900
        if time.monotonic() - last > 10 and (workers := below(fleet, "ray::judged")):
            os.kill(workers[len(workers) // 2].pid, signal.SIGKILL)
            last = time.monotonic()
        if not head and time.monotonic() - begun > 25:
            (gcs,) = below(fleet, "gcs_server", "head")
            os.kill(gcs.pid, signal.SIGKILL)
            head = True
        time.sleep(0.2)
    rows = list(fleet.rows(digests, 5))
    assert head and len(rows) == len({d for d, _ in rows}) == len(asked)
    assert all(r.correct for _, r in rows)
    assert max(n.starts for n in fleet.folder.nodes()) > 1


def down_ends_a_node_and_no_other(fleet):
    """The fleet has one node after it."""
    head, second = sorted(fleet.folder.nodes(), key=lambda n: n.role)
    mine, others = ([n.keeper, *descendants(n.keeper.pid)] for n in (second, head))
    assert len(mine) > 2 and process(second.keeper.pid) == second.keeper
    assert down(fleet.folder.path, "second")["second"] >= 2
    assert not any(map(alive, mine)) and [n.name for n in fleet.folder.nodes()] == ["head"]
    assert alive(head.keeper) and any(map(alive, others[1:]))
    until(lambda: len(fleet.status()["nodes"]) == 1)
    (digest,) = fleet.submit([Job(spec("cpp:cpu"), Candidate("no C++ either"), "quick")])
    ((_, row),) = fleet.rows([digest], 60)
    assert row.error is not None


@pytest.mark.slow
def test_two_nodes_on_this_machine(tmp_path):
    """One test, since a fleet takes seconds to start and workers of pytest would start one each."""
    with two_nodes(tmp_path) as fleet:
        rows_come_once_each_though_workers_are_killed(fleet)
        a_target_that_nobody_has_is_answered_at_once(fleet)
        a_second_head_in_one_place_is_refused(fleet)
        a_server_hands_jobs_to_the_fleet(fleet)
        down_ends_a_node_and_no_other(fleet)


@pytest.mark.slow
def test_what_a_killed_keeper_leaves_is_ended_all_the_same(tmp_path):
    with two_nodes(tmp_path) as fleet:
        nodes = list(fleet.folder.nodes())
        left = [p for n in nodes for p in descendants(n.keeper.pid)]
        for n in nodes:
            os.kill(n.keeper.pid, signal.SIGKILL)
        until(lambda: not any(n.alive for n in fleet.folder.nodes()))
        assert any(map(alive, left))
        down(tmp_path)
        until(lambda: not any(map(alive, left)), 20)


@pytest.mark.slow
def test_each_device_has_one_job_at_a_time(tmp_path):
    with two_nodes(tmp_path) as fleet:
        each_device_has_one_job_at_a_time_whose_worker_sees_no_other(fleet)
        the_example_is_judged(fleet)


@pytest.mark.slow
def test_hundreds_of_rows(tmp_path):
    with two_nodes(tmp_path) as fleet:
        hundreds_of_rows_under_kills_of_workers_and_of_the_head(fleet)
