"""Tasks, batches and jobs: taken in, limited, handed to a bench, looked up, cancelled, forgotten."""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from portakern.errors import PortakernError, UsageError
from portakern.jobs.described import Described
from portakern.jobs.job import Job
from portakern.jobs.spec import TaskSpec
from portakern.jobs.tracing import Allowed, traced
from portakern.registry import registry
from portakern.serve.bench import Bench, Ticket
from portakern.serve.settings import Settings
from portakern.study.row import Row

STATES = ("queued", "running", "done", "cancelled", "expired")
BUSY = ("queue-full", "busy")
"""Kinds of refusals that pass: to be asked again later."""


class Refused(PortakernError):
    """What the server does not take now, or not at all, by its limits."""


class Unknown(PortakernError):
    """There is nothing of that name, or no longer."""

    def __init__(self, what: str, name: str, hint: str) -> None:
        super().__init__("unknown", f"there is no {what} {name[:100]!r}", hint=hint)


@dataclass(eq=False)
class Asked:
    """A job that somebody handed in."""

    id: str
    ticket: Ticket
    submitted: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished: datetime | None = None

    @property
    def state(self) -> str:
        future = self.ticket.future
        if future.cancelled():
            return "cancelled"
        if not future.done():
            return "running" if future.running() else "queued"
        kind = (self.row.error or {}).get("kind") if self.row else ""
        return {"deadline": "expired", "cancelled": "cancelled"}.get(kind or "", "done")

    @property
    def row(self) -> Row | None:
        future = self.ticket.future
        return future.result() if future.done() and not future.cancelled() else None


@dataclass(eq=False)
class Batch:
    id: str
    jobs: tuple[Asked, ...]
    submitted: datetime = field(default_factory=lambda: datetime.now(UTC))

    def counts(self) -> dict[str, int]:
        states = [j.state for j in self.jobs]
        return {s: states.count(s) for s in STATES}

    @property
    def done(self) -> bool:
        return all(j.ticket.future.done() for j in self.jobs)


class Desk:
    """What a server knows.  Used from any thread."""

    def __init__(self, settings: Settings, bench: Bench) -> None:
        self.settings, self.bench = settings, bench
        self._lock = threading.Lock()
        self._tasks: OrderedDict[str, tuple[TaskSpec, Described]] = OrderedDict()
        self._making: dict[str, Future[Described]] = {}
        """Tasks that are being read, so that many who ask for one at once wait for the same."""
        self._batches: OrderedDict[str, Batch] = OrderedDict()
        self._jobs: dict[str, Asked] = {}
        self._preparing = threading.BoundedSemaphore(settings.preparing)
        self.begun = time.monotonic()
        self.judged = 0

    def close(self) -> None:
        self.bench.close()

    # ---- tasks

    def register(self, spec: TaskSpec) -> tuple[str, Described]:
        """The task with its id.  Raises what is wrong with it, :class:`Refused` where too many ask at once."""
        self._takes(spec.target)
        with self._lock:
            if spec.id in self._tasks:
                self._tasks.move_to_end(spec.id)
                return spec.id, self._tasks[spec.id][1]
            other = self._making.get(spec.id)
            mine = self._making.setdefault(spec.id, Future())
        if other is not None:
            return spec.id, other.result()
        try:
            made = self._made(spec)
            mine.set_result(made)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._making[spec.id]
        return spec.id, made

    def _made(self, spec: TaskSpec) -> Described:
        with self.preparing():
            made = traced(spec, self.settings.allowed)
        with self._lock:
            self._tasks[spec.id] = (spec, made)
            while len(self._tasks) > self.settings.tasks:
                self._tasks.popitem(last=False)
        return made

    def task(self, id: str) -> tuple[TaskSpec, Described]:
        """Raises :class:`Unknown`."""
        with self._lock:
            if id not in self._tasks:
                raise Unknown("task", id, "register it: POST /v1/tasks")
            self._tasks.move_to_end(id)
            return self._tasks[id]

    def _takes(self, target: str) -> None:
        """Raises where nobody here judges kernels for ``target``: nobody waits for what will never be."""
        aim = registry().target(target)
        if registry().language(aim.language).adopt is None:
            raise UsageError(f"{aim.language} takes no kernels from elsewhere", hint="see /v1/targets")
        have = self.bench.targets()
        if have is not None and str(aim) not in have:
            raise UsageError(f"no node of the fleet has {aim}", kind="no-such-target",
                             hint=f"it has {', '.join(sorted(have)) or 'no nodes'}")  # fmt: skip

    def preparing(self) -> _Turn:
        """One of the few who may prepare something at once; raises :class:`Refused` where there are as many already."""
        return _Turn(self._preparing)

    def fleet(self) -> dict[str, Any] | None:
        """What the fleet says of itself, where jobs go to one."""
        return self.bench.nodes()

    @property
    def allowed(self) -> Allowed:
        return self.settings.allowed

    # ---- jobs

    def submit(self, jobs: Sequence[Job], batch: str = "", ids: Sequence[str] = (), deadline_s: float | None = None) -> Batch:
        """Takes a batch in.  Raises :class:`Refused`, :class:`Unknown` for a task, or :class:`UsageError`."""
        if not 0 < len(jobs) <= self.settings.batch:
            raise Refused("batch-size", f"a batch of {len(jobs)} candidates",
                          hint=f"1 to {self.settings.batch} are taken at once")
        for job in jobs:
            if len(job.candidate.source) > self.settings.source_characters:
                raise Refused("too-large", f"a candidate of {len(job.candidate.source)} characters",
                              hint=f"{self.settings.source_characters} are the most")
        given = [replace(j, limit_s=min(j.limit_s, self.settings.limit_s)) for j in jobs]
        made = {spec.id: (spec, self.register(spec)[1]) for spec in {j.task.id: j.task for j in jobs}.values()}
        until = time.monotonic() + min(deadline_s or self.settings.deadline_s, self.settings.deadline_s)
        found = tuple(Asked(ids[n] if ids else uuid.uuid4().hex, Ticket(job, made[job.task.id][1], until))
                      for n, job in enumerate(given))  # fmt: skip
        with self._lock:
            self._admit(found, batch)
            kept = Batch(batch or uuid.uuid4().hex, found)
            self._batches[kept.id] = kept
            self._jobs.update({j.id: j for j in found})
            self._forget()
        for asked in found:
            asked.ticket.future.add_done_callback(lambda _, a=asked: self._finished(a))
        try:
            self.bench.put([a.ticket for a in found])
        except BaseException:  # nobody would ever judge them
            for asked in found:
                asked.ticket.future.cancel()
            raise
        return kept

    def _admit(self, found: Iterable[Asked], batch: str) -> None:
        found = list(found)
        if batch in self._batches:
            raise Refused("exists", f"there is a batch {batch!r} already", hint="name another one, or none")
        taken = [a.id for a in found if a.id in self._jobs]
        if taken or len({a.id for a in found}) < len(found):
            raise Refused("exists", f"there is a job {(taken or [found[0].id])[0]!r} already", hint="name another one, or none")
        waiting = sum(not j.ticket.future.done() for j in self._jobs.values())
        if waiting + len(found) > self.settings.queue:
            raise Refused("queue-full", f"{waiting} candidates wait", hint=f"{self.settings.queue} may: ask again later")

    def _finished(self, asked: Asked) -> None:
        asked.finished = datetime.now(UTC)
        self.judged += 1

    def _forget(self) -> None:
        """The oldest batches that are done, where more jobs are kept than may be."""
        for id in list(self._batches):
            if len(self._jobs) <= self.settings.keep:
                return
            if self._batches[id].done:
                for job in self._batches.pop(id).jobs:
                    if self._jobs.get(job.id) is job:
                        del self._jobs[job.id]

    def batch(self, id: str) -> Batch:
        """Raises :class:`Unknown`."""
        with self._lock:
            if id not in self._batches:
                raise Unknown("batch", id, "it was never asked for, or is forgotten")
            return self._batches[id]

    def job(self, id: str) -> Asked:
        """Raises :class:`Unknown`."""
        with self._lock:
            if id not in self._jobs:
                raise Unknown("job", id, "it was never asked for, or is forgotten")
            return self._jobs[id]

    def known(self, id: str) -> Asked | None:
        with self._lock:
            return self._jobs.get(id)

    def drop(self, id: str) -> None:
        """Forgets a job, so that its name may be used again; it stays in its batch."""
        with self._lock:
            self._jobs.pop(id, None)

    def cancel(self, jobs: Iterable[Asked]) -> int:
        """Cancels what is not done; gives how many there were."""
        open_ones = [j for j in jobs if not j.ticket.future.done()]
        for job in open_ones:
            self.bench.cancel(job.ticket)
        return len(open_ones)

    def counts(self) -> dict[str, int]:
        with self._lock:
            states = [j.state for j in self._jobs.values()]
        return {s: states.count(s) for s in STATES}

    def place_in_queue(self, asked: Asked) -> int | None:
        """How many queued jobs are before it."""
        with self._lock:
            queued = [j for j in self._jobs.values() if j.state == "queued"]
        return queued.index(asked) if asked in queued else None


class _Turn:
    def __init__(self, semaphore: threading.BoundedSemaphore) -> None:
        self._semaphore = semaphore

    def __enter__(self) -> None:
        if not self._semaphore.acquire(timeout=30.0):
            raise Refused("busy", "others are being served", hint="ask again later")

    def __exit__(self, *_: Any) -> None:
        self._semaphore.release()


