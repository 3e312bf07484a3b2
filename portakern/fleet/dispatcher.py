"""The process beside a fleet's head: jobs of the store go to nodes, rows come back into the store.

It may be killed at any time, as may a node or the head: what has no row then is asked for again when there is one anew, and a
second row of a job is not kept.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from portakern.errors import PortakernError, WorkerError
from portakern.fleet import judging
from portakern.fleet.places import Folder, write
from portakern.fleet.resources import COMPILER, needs, ours, targets_in
from portakern.jobs.job import Job
from portakern.jobs.store import JobStore
from portakern.study.row import Row

AHEAD = 3
"""Jobs per core that wait with Ray."""

GRACE_S = 120.0
"""A target that was here so long ago is waited for: its node may be coming back."""

TRIES = 25
"""Workers may be lost with a job so often until it is the job's doing."""

LOST_S = 60.0
"""Ray may hold jobs this long after a node was lost.  If the network was cut and no process ended, Ray never gives back the
jobs that were on their way to that node."""

_ROUND_S = 0.25


class Dispatcher:
    def __init__(self, folder: Folder, address: str, jail: str) -> None:
        import ray

        self._ray, self._folder, self._jail = ray, folder, jail
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, namespace="portakern")
        self._judged: Any = ray.remote(max_retries=0, max_calls=0)(judging.judged)
        self._store = JobStore(folder.store)
        self._held: dict[Any, Job] = {}
        self._nodes: set[str] = set()
        self._doubted: dict[Any, float] = {}  # jobs that Ray held when a node was lost, and when that was
        self._seen: dict[str, float] = dict(folder.state().get("seen") or {})
        self._told = 0.0

    def run(self) -> None:
        while True:
            have = self._look()
            self._give_up()
            self._fill(have)
            if not self._held:
                time.sleep(_ROUND_S)
                continue
            done, _ = self._ray.wait(list(self._held), num_returns=1, timeout=_ROUND_S)
            for reference in done:
                self._take(reference)

    def _look(self) -> Mapping[str, float]:
        """The resources of the nodes that are alive; written down about once a second."""
        if time.time() - self._told < 1.0:
            return self._have
        nodes = [n for n in self._ray.nodes() if n["Alive"]]
        self._have: dict[str, float] = {}
        for n in nodes:
            for name, count in n["Resources"].items():
                self._have[name] = self._have.get(name, 0.0) + count
        self._told = time.time()
        if self._nodes - (alive := {n["NodeID"] for n in nodes}):
            self._doubted = {**dict.fromkeys(self._held, self._told), **self._doubted}
        self._nodes = alive
        self._seen.update(dict.fromkeys(ours(self._have), self._told))
        shown = [{"id": n["NodeID"], "address": n["NodeManagerAddress"], "cores": n["Resources"].get("CPU", 0),
                  "gpus": n["Resources"].get("GPU", 0), "targets": targets_in(n["Resources"])} for n in nodes]  # fmt: skip
        write(self._folder.whole, {"at": self._told, "nodes": shown, "resources": ours(self._have), "seen": self._seen,
                                   "under_way": len(self._held)})  # fmt: skip
        return self._have

    def _fill(self, have: Mapping[str, float]) -> None:
        room = int(AHEAD * max(have.get("CPU", 0.0), 1.0)) - len(self._held)
        if room <= 0:
            return
        held = {job.digest for job in self._held.values()}
        for job in self._store.open_jobs(held, room):
            options = needs(job, have)
            if options is not None:
                self._store.begun(job.digest)
                self._held[self._judged.options(**options).remote(judging.written(job), self._jail)] = job
            elif needs(job, recent(self._seen)) is None:
                self._store.tell(job.digest, nobody(job, have), "", 0.0)

    def _give_up(self) -> None:
        """Jobs that are with Ray long after a node was lost are open again, those that other nodes are slow with, too."""
        for reference, since in list(self._doubted.items()):
            if reference not in self._held:
                del self._doubted[reference]
            elif time.time() - since > LOST_S:
                del self._doubted[reference], self._held[reference]
                self._ray.cancel(reference, force=True)

    def _take(self, reference: Any) -> None:
        job = self._held.pop(reference)
        try:
            found = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:  # a worker or a node was lost: the job is open again
            kept = self._store.kept([job.digest]).get(job.digest)
            if kept is not None and kept.begun >= TRIES:
                row = Row(job.task.operator or "operator", job.task.target)
                lost = WorkerError(f"{TRIES} workers were lost with this job, the last one: {str(error)[:300]}")
                self._store.tell(job.digest, row.failed(lost), "", 0.0)
            return
        self._store.tell(job.digest, Row.from_dict(found["row"]), found["place"], found["seconds"])


def recent(seen: Mapping[str, float]) -> dict[str, float]:
    """One of each resource that the fleet has, or had a short while ago."""
    return {name: 1.0 for name, at in seen.items() if time.time() - at < GRACE_S}


def nobody(job: Job, have: Mapping[str, float]) -> Row:
    """The row of a job whose target no node has."""
    compiles = "; it can be compiled: ask for the level compile" if COMPILER + job.task.target in have else ""
    error = PortakernError("no-such-target", f"no node of the fleet runs kernels for {job.task.target}{compiles}",
                           hint=f"it has {', '.join(sorted(targets_in(have))) or 'no nodes'}; `portakern fleet join` adds one")
    return Row(job.task.operator or "operator", job.task.target).failed(error)


def main() -> None:
    folder, address, jail = sys.argv[1:4]
    Dispatcher(Folder(folder), address, jail).run()


if __name__ == "__main__":
    main()
