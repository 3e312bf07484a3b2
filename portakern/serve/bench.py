"""Where jobs are judged: on this machine, by a few threads with warm judges, or by a fleet."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from portakern.errors import PortakernError, WorkerError
from portakern.jobs.described import Described
from portakern.jobs.job import Job
from portakern.study.judging import Judge, Limits
from portakern.study.keeping import Keeper
from portakern.study.row import Row, without_samples


@dataclass(eq=False)
class Ticket:
    """A job on its way to a row.  ``until`` is its deadline by ``time.monotonic``."""

    job: Job
    made: Described
    until: float
    future: Future[Row] = field(default_factory=Future)
    begun: datetime | None = None
    stopped: bool = False

    def expired(self) -> Row:
        words = "was not judged by its deadline" if self.begun is None else "was ended at its deadline"
        return self.made.work.row.failed(PortakernError("deadline", f"the candidate {words}",
                                                        hint="give it a later one, or ask for less at once"))  # fmt: skip


class Bench(Protocol):
    """Takes tickets and fulfils their futures; a ticket whose ``future`` is cancelled, or that is ``stopped``, is let go."""

    def put(self, tickets: Sequence[Ticket]) -> None: ...

    def cancel(self, ticket: Ticket) -> None: ...

    def close(self) -> None: ...

    def targets(self) -> frozenset[str] | None:
        """Those that can be judged here; ``None``: whatever this machine can."""
        ...

    def nodes(self) -> dict[str, Any] | None:
        """What a fleet says of itself; ``None`` where there is none."""
        ...


_LOOK_AHEAD = 64
_PATIENCE_S = 5.0
_WATCH_S = 0.25
_ROUND_S = 0.05
"""So long a candidate that is cancelled goes on."""

_WARM = 2
"""Judges that a thread keeps: two tasks that come in turns stay warm."""


class LocalBench:
    """``workers`` threads.  A thread prefers jobs of a task that it is warm for, unless the first one has waited long."""

    def __init__(self, workers: int, jail: str = "auto", sink: Keeper | None = None) -> None:
        self._jail, self._sink = jail, sink
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Ticket]] = deque()
        self._running: set[Ticket] = set()
        self._closing = False
        self._threads = [threading.Thread(target=self._serve, name=f"bench-{n}", daemon=True) for n in range(workers)]
        for thread in self._threads:
            thread.start()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="bench-deadlines", daemon=True).start()

    def targets(self) -> None:
        return None

    def nodes(self) -> None:
        return None

    def put(self, tickets: Sequence[Ticket]) -> None:
        with self._changed:
            self._waiting.extend((time.monotonic(), ticket) for ticket in tickets)
            self._changed.notify_all()

    def cancel(self, ticket: Ticket) -> None:
        ticket.stopped = True
        ticket.future.cancel()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            left = [t for _, t in self._waiting]
            self._waiting.clear()
            self._changed.notify_all()
            running = list(self._running)
        self._ended.set()
        for ticket in (*left, *running):
            self.cancel(ticket)
        for thread in self._threads:
            thread.join()

    def _watch(self) -> None:
        """Those that wait are let go at their deadline, whatever the threads do."""
        while not self._ended.wait(_WATCH_S):
            with self._changed:
                late = [entry for entry in self._waiting if time.monotonic() > entry[1].until]
                for entry in late:
                    self._waiting.remove(entry)
            for _, ticket in late:
                if ticket.future.set_running_or_notify_cancel():
                    ticket.future.set_result(ticket.expired())

    # ---- a thread

    def _serve(self) -> None:
        warm: OrderedDict[Any, Judge] = OrderedDict()
        try:
            while (ticket := self._next(warm)) is not None:
                if ticket.future.set_running_or_notify_cancel():
                    ticket.begun = datetime.now(UTC)
                    self._fulfil(ticket, warm)
                self._running.discard(ticket)
        finally:
            for judge in warm.values():
                judge.close()

    def _next(self, warm: OrderedDict[Any, Judge]) -> Ticket | None:
        with self._changed:
            while not self._closing:
                if self._waiting:
                    at = self._choose(warm)
                    ticket = self._waiting[at][1]
                    del self._waiting[at]
                    self._running.add(ticket)
                    return ticket
                self._changed.wait()
            return None

    def _choose(self, warm: OrderedDict[Any, Judge]) -> int:
        if time.monotonic() - self._waiting[0][0] > _PATIENCE_S:
            return 0
        first = list(zip(range(_LOOK_AHEAD), self._waiting, strict=False))
        return next((n for n, (_, t) in first if _key(t.job) in warm), 0)

    def _fulfil(self, ticket: Ticket, warm: OrderedDict[Any, Judge]) -> None:
        try:
            row = self._judged(ticket, warm)
        except PortakernError as error:
            row = ticket.made.work.row.failed(error)
        except Exception as error:  # of ours; the thread must live on
            row = ticket.made.work.row.failed(WorkerError(f"judging failed: {type(error).__name__}: {error}"))
        ticket.future.set_result(without_samples(row))

    def _judged(self, ticket: Ticket, warm: OrderedDict[Any, Judge]) -> Row:
        if time.monotonic() > ticket.until:
            return ticket.expired()
        key = _key(ticket.job)
        judge = warm.pop(key, None) or self._judge(ticket)
        warm[key] = judge
        while len(warm) > _WARM:
            warm.popitem(last=False)[1].close()
        future = judge.submit(ticket.job.candidate, ticket.job.level)
        while not ticket.stopped and time.monotonic() < ticket.until:
            with suppress(TimeoutError):
                return future.result(_ROUND_S)
        warm.pop(key)
        judge.close()  # ends what is under way
        if not ticket.stopped:
            return ticket.expired()
        return ticket.made.work.row.failed(PortakernError("cancelled", "the candidate was cancelled"))

    def _judge(self, ticket: Ticket) -> Judge:
        job = ticket.job
        timing = {"against": list(job.against)}
        return Judge(ticket.made.work, 1, job.level, Limits(job.limit_s), self._jail, timing, self._sink)


def _key(job: Job) -> tuple[Any, ...]:
    return job.task.id, job.limit_s, job.against
