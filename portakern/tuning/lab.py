"""Where candidates are compiled, run and checked: worker processes, so that a candidate can end none but its own.

:class:`Lab` is the protocol that the tuner knows; tests give it another one with planted times.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from portakern.backend import Language, Source, Target
from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.study import steps
from portakern.study.row import Row
from portakern.study.slots import Slots, SlotTask, room
from portakern.study.steps import Build
from portakern.study.work import Work
from portakern.tools.workers import Job, WorkerFault, WorkerPool
from portakern.tuning.bench import CompiledCandidate, Raced
from portakern.tuning.racing import Measurer, Samples

COMPILE_LIMIT_S = 120.0
RUN_LIMIT_S = 120.0
CHECK_LIMIT_S = 600.0

_DEVICE_SPENT = ("timeout", "device-lost")
"""Errors after which the process that has the device is of no more use: work may still be running there."""


@dataclass(frozen=True)
class ScheduleCandidate:
    """A point that is worth compiling.  ``name`` is its place in the order of trying; ``source`` what was emitted."""

    name: str
    work: Work
    source: Source


class Lab(Measurer, Protocol):
    """What the tuner needs done."""

    overlap: bool
    """Whether candidates may be compiled while others are timed: not where both need the same processor."""

    def begin(self, work: Work) -> None:
        """A new search: the first candidate that is admitted after this is the default."""
        ...

    def builds(self, first: Sequence[ScheduleCandidate],
               follow: Callable[[], Sequence[ScheduleCandidate]]) -> Iterator[tuple[ScheduleCandidate, Build]]:
        """Compiled candidates as they are ready.  ``follow`` is asked for more each time one is."""
        ...

    def admit(self, candidate: ScheduleCandidate, made: Build) -> PortakernError | None:
        """Run a compiled candidate once and look at its results.  The first is the default, which others are held against."""
        ...

    def check(self, candidate: ScheduleCandidate, made: Build) -> Row:
        """The row after the whole check."""
        ...

    def time(self, candidate: ScheduleCandidate, row: Row, made: Build) -> Row:
        """``row`` with the time of the candidate as ``bench`` takes it."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Device, driver and mode of timing, as far as known."""
        ...


class DeviceLab:
    """The real one: ``jobs`` compilers beside one process that has the device.

    Args:
        target: what is tuned for.
        jobs: how many compile at once.
        lock: a file that is held while the device is timed on, so that two tunings do not disturb each other.
    """

    def __init__(self, target: Target, jobs: int = 2, lock: Path | None = None, seed: int = 0) -> None:
        self.target, self.jobs, self.seed = target, jobs, seed
        self.language: Language = registry().language(target.language)
        self.overlap = target.device.kind != "cpu"
        self._lock = lock
        self._slots = Slots(jobs)
        self._compiling = False
        self._device: WorkerPool | None = None
        self._contenders: dict[str, CompiledCandidate] = {}
        self._work: Work | None = None
        self._default: CompiledCandidate | None = None
        self._measured: dict[str, Any] = {}
        self._rounds = 0

    def begin(self, work: Work) -> None:
        self._contenders.clear()
        self._work, self._default, self._measured = work, None, {}

    # ---- compiling

    def builds(self, first: Sequence[ScheduleCandidate],
               follow: Callable[[], Sequence[ScheduleCandidate]]) -> Iterator[tuple[ScheduleCandidate, Build]]:
        waiting: dict[str, ScheduleCandidate] = {}
        env = steps.build_environment(self.language)

        def task(c: ScheduleCandidate) -> SlotTask:
            waiting[c.name] = c
            kwargs = {"estimate": registry().estimator(self.target) is not None}
            job = Job(c.name, "portakern.study.steps:build", (c.work,), kwargs, COMPILE_LIMIT_S)
            return SlotTask(room(self.language.name, env), job)

        self._compiling = True
        for outcome in self._slots.run([task(c) for c in first], lambda t, o: [task(c) for c in follow()]):
            candidate = waiting.pop(str(outcome.id))
            error = outcome.error
            yield candidate, outcome.value if error is None else Build(candidate.work.row.failed(error), candidate.source)
        self._compiling = False

    # ---- running

    def admit(self, candidate: ScheduleCandidate, made: Build) -> PortakernError | None:
        assert made.source is not None
        mine = CompiledCandidate(candidate.name, made.source, made.binary_key)
        if self._default is None:
            self._default = mine
        self._contenders[candidate.name] = mine
        try:
            self._run("admit", self._work, self._default, mine)
        except PortakernError as error:
            return error
        return None

    def measure(self, names: Sequence[str], samples: int) -> Mapping[str, Samples | PortakernError]:
        contenders = [self._contenders[n] for n in names]
        self._rounds += 1
        with self._alone():
            try:
                raced: Raced = self._run("race", self._work, self._default, contenders, samples, seed=self.seed + self._rounds)
            except WorkerFault as error:
                # Nothing tells whose fault it was: each alone, in a fresh process.
                if len(names) == 1:
                    return {names[0]: error}
                return {n: x for n in names for n, x in self.measure([n], min(samples, 5)).items()
                        if isinstance(x, PortakernError)} or dict.fromkeys(names[1:], error)  # fmt: skip
        if raced.error is not None:
            if raced.error.kind in _DEVICE_SPENT:
                self._close_device()
            return {raced.failed: raced.error}
        self._measured = {"device": raced.device, "driver": raced.driver, "mode": raced.mode, "suspicions": raced.suspicions}
        return raced.samples

    def check(self, candidate: ScheduleCandidate, made: Build) -> Row:
        try:
            if made.runner == "runtime":
                return self._run("check", candidate.work, made, limit_s=CHECK_LIMIT_S)
            with WorkerPool(1, env=steps.run_environment(self.target, made.runner)) as pool:
                # In full where the oracle can afford it: a simulator needs the time for the kernel itself.
                return pool.call("portakern.study.steps:check", candidate.work, made, full=False, timeout_s=CHECK_LIMIT_S)
        except PortakernError as error:
            return made.row.failed(error)

    def time(self, candidate: ScheduleCandidate, row: Row, made: Build) -> Row:
        with self._alone():
            try:
                return self._run("time", candidate.work, replace(made, row=row))
            except PortakernError as error:
                return row.failed(error)

    def facts(self) -> Mapping[str, Any]:
        return self._measured

    def _run(self, function: str, *args: Any, limit_s: float = RUN_LIMIT_S, **kwargs: Any) -> Any:
        if self._device is None:
            self._device = WorkerPool(1, env=steps.run_environment(self.target, "runtime"))
        try:
            return self._device.call(f"portakern.tuning.bench:{function}", *args, timeout_s=limit_s, **kwargs)
        except PortakernError as error:
            if isinstance(error, WorkerFault) or error.kind in _DEVICE_SPENT:
                self._close_device()
            raise

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        with open(self._lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def _close_device(self) -> None:
        if self._device is not None:
            self._device.close()
            self._device = None

    def __enter__(self) -> DeviceLab:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._compiling:  # left in the middle: what is compiled now is not waited for
            self._slots.close()
        else:
            self._slots.__exit__(kind, error, trace)
        self._close_device()
