"""The interface of a search, and the loop that runs one."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from portakern.errors import UsageError
from portakern.search.history import History, Past
from portakern.search.trial import Trial
from portakern.study.candidate import Candidate, level_of
from portakern.study.judging import Judge, Limits
from portakern.study.row import Row
from portakern.study.task import Task


class Search(Protocol):
    """Proposes candidates and learns from what became of them.

    One that can take up a search from its trials has ``resume(trials, pending)`` as well, which is called before the first
    ``ask``: it will be told of the pending candidates, which are judged first.  One that has not may ask for what it asked for
    before: it is told at once what became of it.
    """

    def ask(self, n: int) -> Sequence[Candidate]:
        """Up to ``n`` candidates; none when there is nothing to try until more is told."""
        ...

    def tell(self, trial: Trial) -> None:
        """What became of a candidate; of those asked for together in any order."""
        ...


class OneAtATime(Protocol):
    """A search that waits for every answer."""

    def ask(self) -> Candidate | None:
        """The next candidate; ``None`` when there is nothing left to try."""
        ...

    def tell(self, row: Row) -> None:
        """What became of the candidate asked for last."""
        ...


@dataclass
class SearchResult:
    """Candidates with their rows, in the order in which they were finished; those of an earlier run first."""

    trials: list[Trial] = field(default_factory=list)

    @property
    def tried(self) -> list[tuple[Candidate, Row]]:
        return [(t.candidate, t.row) for t in self.trials]

    @property
    def best(self) -> tuple[Candidate, Row] | None:
        """The best correct candidate by :func:`score`; ``None`` if none was correct."""
        correct = [(c, r) for c, r in self.tried if r.correct]
        return min(correct, key=lambda cr: score(cr[1]), default=None)


def score(row: Row) -> tuple[float, ...]:
    """Smaller is better, and comparable among rows of one target.

    A measured time decides alone.  Where there is no silicon, what the binary tells stands in: nothing spilled, a high
    occupancy, little code.  That ranks candidates and predicts no time.
    """
    if row.time is not None:
        return (0.0, float(row.time["median_us"]))
    if row.estimate is not None:
        return (1.0, float(row.estimate["us"]))
    used = row.resources or {}
    spilled = (used.get("spills") or 0) + (used.get("scratch_bytes") or 0)
    return (2.0, float(spilled), -float(used.get("occupancy") or 0.0), float(used.get("code_bytes") or 0))


def search(proposer: Search | OneAtATime, task: Task, budget_s: float = 60.0, timeout_s: float = 30.0, workers: int = 2,
           level: str = "timed", store: str | Path | bool | None = None, name: str = "", **judging: Any
           ) -> SearchResult:  # fmt: skip
    """Ask, judge and tell until nothing is left to try or the time is over.  No candidate can end it.

    Args:
        proposer: the search.
        task: what is searched for.
        budget_s: wall time after which no further candidate is tried.
        timeout_s: wall time for one candidate.
        workers: how many candidates are judged at once; one for a search that asks for one at a time.
        level: how far: one of :data:`portakern.study.candidate.LEVELS`.
        store: where every text, row and edge is kept: a file, ``True`` for the user's store; nowhere where not given.
        name: of the search in the store.  One that is there already goes on; without a name it is the task's.
        judging: further arguments of :class:`portakern.study.judging.Judge`.

    Raises :class:`UsageError` where the search of this name is of another task or level.
    """
    one = not inspect.signature(proposer.ask).parameters
    history = None if store is None or store is False else History(None if store is True else store)
    named = name or f"{task.operator} {task.target} {task.dtype} {task.shape}"
    past = history.begin(named, task.work, level_of(level)) if history is not None else Past(0, (), ())
    with Judge(task.work, 1 if one else workers, level, Limits(timeout_s), **judging) as judge:
        loop = _Loop(proposer, judge, history, past, one, time.monotonic() + budget_s)
        return loop.run()


class _Loop:
    """A search under way."""

    def __init__(self, proposer: Any, judge: Judge, history: History | None, past: Past, one: bool, end: float) -> None:
        self.proposer, self.judge, self.history, self.past = proposer, judge, history, past
        self.one, self.end = one, end
        self.width = 1 if one else judge.ahead
        self.result = SearchResult(list(past.told))
        self.known = {t.id: t for t in past.told}
        self.under_way: dict[Future[Row], tuple[Candidate, float]] = {}
        self.waiting: dict[str, int] = {}

    def run(self) -> SearchResult:
        if resume := getattr(self.proposer, "resume", None):
            resume(list(self.past.told), list(self.past.pending))
            self.begin(self.past.pending)
        while True:
            asked = self.ask() if time.monotonic() < self.end else []
            self.begin(asked)
            if not self.under_way and not asked:
                return self.result
            done, _ = wait(self.under_way, 0.0 if self.free and asked else None, FIRST_COMPLETED)
            for future in done:
                self.finish(future)

    @property
    def free(self) -> int:
        return self.width - len(self.under_way)

    def ask(self) -> Sequence[Candidate]:
        if self.free <= 0:
            return []
        if not self.one:
            return list(self.proposer.ask(self.free))
        found = self.proposer.ask()
        return [] if found is None else [found]

    def begin(self, candidates: Sequence[Candidate]) -> None:
        """Hands in those that are new, and tells of the others."""
        for c in candidates:
            if not isinstance(c, Candidate):
                raise UsageError(f"a search asks for candidates, not {type(c).__name__}", hint="portakern.search.Candidate")
        if self.history is not None:
            self.history.asked(self.past.number, candidates)
        for c in candidates:
            if c.id in self.known:
                self.tell(self.known[c.id])
            elif c.id in self.waiting:
                self.waiting[c.id] += 1
            else:
                self.waiting[c.id] = 1
                self.under_way[self.judge.submit(c)] = (c, time.monotonic())

    def finish(self, future: Future[Row]) -> None:
        candidate, begun = self.under_way.pop(future)
        trial = Trial(candidate, future.result(), time.monotonic() - begun)
        if self.history is not None:
            self.history.told(self.past.number, trial)
        self.known[trial.id] = trial
        self.result.trials.append(trial)
        for _ in range(self.waiting.pop(trial.id)):
            self.tell(trial)

    def tell(self, trial: Trial) -> None:
        told: Callable[[Any], None] = self.proposer.tell
        told(trial.row if self.one else trial)
