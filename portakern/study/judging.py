"""A judge of many kernels of one target, mostly of one task: warm processes, one seat per worker, rows as they are asked for.

A seat is a thread that drives a process on the side that judges (:mod:`portakern.study.seat`), which lends each kernel
processes that have held no other.  What a kernel does ends with these; a seat that is lost all the same is made anew.
"""

from __future__ import annotations

import asyncio
import queue
import shutil
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from portakern.check.proof import PROOF_S
from portakern.errors import PortakernError, UsageError
from portakern.referee.process import MODES
from portakern.referee.secret import Secret
from portakern.registry import registry
from portakern.study import steps
from portakern.study.candidate import Candidate, candidate_of, level_of
from portakern.study.peers_apart import time_for
from portakern.study.provenance import environment
from portakern.study.row import Row
from portakern.study.turns import HOST, turns_of
from portakern.study.under_way import explain
from portakern.study.work import Foreign, Work
from portakern.tools.cache import Cache
from portakern.tools.workers import WorkerFault, WorkerPool

SEAT = "portakern.study.seat"
LIMIT_S = 60.0
MEMORY_BYTES = 16 << 30
"""Of each process of a kernel."""

_MORE_S = 300.0
"""A seat's own work may take so much longer than what it waits for: oracles, comparisons, a process that starts."""

_JOIN_S = 0.05

_AHEAD = 2
"""Candidates per worker that :meth:`Judge.map` takes before their turn."""

Given = Candidate | str | tuple[str, str | None]


@dataclass(frozen=True)
class Limits:
    """``candidate_s``: what a candidate's processes may take for compiling and being checked, and again for being timed;
    ``memory_bytes`` of
    each of its processes (``None``: none)."""

    candidate_s: float = LIMIT_S
    memory_bytes: int | None = MEMORY_BYTES


class Judge:
    """Judges kernels for one task.  Used with ``with``, from any thread.

    Args:
        work: what they should compute, where, at which size.
        workers: how many candidates are judged at once; a processor each is well spent.
        level: how far, unless a candidate's own is given: one of :data:`portakern.study.candidate.LEVELS`.
        limits: of a candidate.
        jail: one of :data:`portakern.referee.process.MODES`.
        timing: what :func:`portakern.study.timing.time` is given: ``against``, ``options``.
        sink: called with each row as it is finished, from the thread that finished it.
    """

    def __init__(self, work: Work, workers: int = 2, level: str = "full", limits: Limits | None = None, jail: str = "auto",
                 timing: Mapping[str, Any] | None = None, sink: Callable[[Row], None] | None = None) -> None:  # fmt: skip
        if jail not in MODES:
            raise UsageError(f"no way to jail a kernel is called {jail!r}", hint=f"there are {', '.join(MODES)}")
        if workers < 1:
            raise UsageError(f"{workers} workers cannot judge", hint="one is the least")
        self.work, self.level, self.jail = work, level_of(level), jail
        self.limits = limits or Limits()
        self.timing, self.sink = dict(timing or {}), sink
        self.target = registry().target(work.target)
        self.language = registry().language(self.target.language)
        if self.language.adopt is None:
            raise UsageError(f"{self.language.name} takes no kernels from elsewhere")
        Cache().check_writable()
        self._tasks: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._closed = False
        self._folder = tempfile.mkdtemp(prefix="portakern-judge-")
        self._seats = [_Seat(self, n) for n in range(workers)]
        self._end = weakref.finalize(self, _end, self._tasks, self._seats, self._folder)

    # ---- asking

    def submit(self, candidate: Given, level: str | None = None, secret: str | None = None,
               work: Work | None = None) -> Future[Row]:  # fmt: skip
        """The row to come; nothing is raised for a bad candidate.  ``secret`` is that of an earlier row, to judge with the same
        inputs, sizes and places again.  ``work`` is what this one should compute, where that is not the judge's own: anything
        on the same target, since what is warm is a language's and not an operator's.

        Raises :class:`UsageError` for what is no candidate, level or secret, for work on another target, or where the judge is
        closed.
        """
        found = candidate_of(candidate)
        if self._closed:
            raise UsageError("the judge is closed", hint="make another one")
        if work is not None and work.target != self.work.target:
            raise UsageError(f"a judge for {self.work.target} was given work on {work.target}",
                             hint="make a judge for each target")  # fmt: skip
        asked = _Asked(found, level_of(level or self.level), Secret.read(secret) if secret else None, Future(),
                       work or self.work)  # fmt: skip
        self._tasks.put(asked)
        return asked.future

    def judge(self, candidate: Given, level: str | None = None, secret: str | None = None, work: Work | None = None) -> Row:
        """One candidate's row."""
        return self.submit(candidate, level, secret, work).result()

    def map(self, candidates: Iterable[Given], level: str | None = None, work: Work | None = None) -> Rows:
        """The rows of ``candidates``, in their order, for ``for`` and ``async for``.  Candidates are taken as they are needed,
        a few ahead, so that they may be endless."""
        return Rows(self, candidates, level, work)

    @property
    def ahead(self) -> int:
        return _AHEAD * len(self._seats)

    # ---- the end

    def close(self) -> None:
        """Ends what is under way, and cancels what has not begun."""
        self._closed = True
        self._end()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class _Asked:
    candidate: Candidate
    level: str
    secret: Secret | None
    future: Future[Row]
    work: Work


class Rows:
    """Rows to come, in the order of their candidates."""

    def __init__(self, judge: Judge, candidates: Iterable[Given], level: str | None, work: Work | None) -> None:
        self._judge, self._level, self._work = judge, level, work
        self._candidates = iter(candidates)
        self._under_way: deque[Future[Row]] = deque()

    def _fill(self) -> None:
        while len(self._under_way) < self._judge.ahead and (given := next(self._candidates, None)) is not None:
            self._under_way.append(self._judge.submit(given, self._level, work=self._work))

    def __iter__(self) -> Iterator[Row]:
        try:
            self._fill()
            while self._under_way:
                row = self._under_way.popleft().result()
                self._fill()
                yield row
        finally:
            self._cancel()

    async def __aiter__(self) -> AsyncIterator[Row]:
        try:
            self._fill()
            while self._under_way:
                row = await asyncio.wrap_future(self._under_way.popleft())
                self._fill()
                yield row
        finally:
            self._cancel()

    def _cancel(self) -> None:
        for future in self._under_way:
            future.cancel()


# ---- seats -------------------------------------------------------------------------------------------------------------------


class _Seat:
    """A thread and the process that it drives.  It holds its judge weakly: who forgets to close one is not kept by it."""

    def __init__(self, judge: Judge, number: int) -> None:
        self._judge = weakref.ref(judge)
        self._tasks = judge._tasks
        self._closing = False
        variables = {**steps.build_environment(judge.language), **registry().environment_for(judge.language.name)}
        self._pool = WorkerPool(1, env={**variables, "TMPDIR": judge._folder}, preload=(SEAT,))
        self._turns = turns_of(device_used(judge.work))
        self._on_host = judge.target.device.kind == "cpu"
        foreign = Foreign("", jail=judge.jail, memory_bytes=judge.limits.memory_bytes)
        self._first = replace(judge.work, foreign=foreign, chosen=None)
        self._thread = threading.Thread(target=self._serve, name=f"judge-{number}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._closing = True
        self._pool.interrupt()

    def join(self) -> None:
        """Interrupts again what had not begun when that was said."""
        while self._thread is not threading.current_thread() and self._thread.is_alive():
            self._pool.interrupt()
            self._thread.join(_JOIN_S)

    def _serve(self) -> None:
        with suppress(PortakernError):
            self._pool.call(f"{SEAT}:warm", self._first)
        try:
            while not self._closing and (asked := self._tasks.get()) is not None:
                if asked.future.set_running_or_notify_cancel():
                    self._answer(asked)
        finally:
            self._pool.close()  # all that it started ends with it

    def _answer(self, asked: _Asked) -> None:
        judge = self._judge()
        if judge is None:
            asked.future.cancel()
            return
        try:
            row = self._judged(judge, asked)
            if self._closing:
                raise CancelledError("the judge was closed")
            if judge.sink is not None:
                judge.sink(row)
            asked.future.set_result(row)
        except BaseException as error:  # of ours: no candidate raises here
            asked.future.set_exception(error)

    def _judged(self, judge: Judge, asked: _Asked) -> Row:
        secret, candidate = asked.secret or Secret.drawn(), asked.candidate
        foreign = Foreign(candidate.source, candidate.entry, judge.jail, judge.limits.memory_bytes, secret,
                          asked.secret is not None, asked.level == "quick")  # fmt: skip
        work = replace(asked.work, foreign=foreign, chosen=None)
        row = self._rows(judge, work, asked.level)
        return row.but(secret=secret.text, environment=environment())

    def _rows(self, judge: Judge, work: Work, level: str) -> Row:
        """Once more where the process was lost: that of a kernel ends without taking it along, so it was none of its doing, or
        it will be lost again."""
        try:
            return self._tried(judge, work, level)
        except _Lost:
            pass
        try:
            return self._tried(judge, work, level)
        except _Lost as lost:
            return lost.row

    def _tried(self, judge: Judge, work: Work, level: str) -> Row:
        limit_s, more_s = judge.limits.candidate_s, judge.limits.candidate_s + _MORE_S
        begun = time.monotonic()
        host = self._turns.together if self._on_host else nullcontext
        made = self._step(work, work.row, "build", host, more_s, limit_s, level in ("full", "timed"), level == "compile")
        if isinstance(made, Row):
            return made
        if level == "compile" or made.row.error is not None or not made.runner:
            return made.row
        row = self._step(work, made.row, "check", self._turns.together, more_s + PROOF_S - (time.monotonic() - begun), made)
        if level != "timed" or not row.correct or made.runner != "runtime":
            return row
        more_s += time_for(judge.timing)
        return self._step(work, row, "time_it", self._turns.alone, more_s, replace(made, row=row), limit_s, judge.timing)

    def _step(self, work: Work, row: Row, step: str, turn: Callable[[], AbstractContextManager[None]], limit_s: float,
              *args: Any) -> Any:  # fmt: skip
        """What the process gives; the row with what ended it where it gives nothing."""
        with turn():
            try:
                return self._pool.call(f"{SEAT}:{step}", work, *args, timeout_s=max(limit_s, 1.0))
            except WorkerFault as fault:
                failed = row.failed(explain(fault, work, _WORDS[step]))
                if fault.kind == "crash" and not self._closing:
                    raise _Lost(failed) from fault
                return failed
            except PortakernError as error:
                return row.failed(error)


class _Lost(Exception):
    """The process of a seat died; the row says how."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row


_WORDS = {"build": "build", "check": "check", "time_it": "time"}


def device_used(work: Work) -> str:
    """What runs the kernels: this machine's processor, unless they run on a device of their own."""
    target = registry().target(work.target)
    runner, _ = steps.runner_for(registry().language(target.language), target)
    return HOST if runner != "runtime" or target.device.kind == "cpu" else target.device.name


def _end(tasks: queue.SimpleQueue[_Asked | None], seats: list[_Seat], folder: str) -> None:
    while True:
        try:
            left = tasks.get_nowait()
        except queue.Empty:
            break
        if left is not None:
            left.future.cancel()
    for seat in seats:
        seat.end()
    for _ in seats:
        tasks.put(None)
    for seat in seats:
        seat.join()
    shutil.rmtree(folder, ignore_errors=True)
