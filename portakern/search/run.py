"""The interface of a search, and the loop that runs one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from portakern.study.row import Row
from portakern.study.task import Task


@dataclass(frozen=True)
class Candidate:
    """A kernel to try: its text, the function to call in it, and a few words on what it is."""

    source: str
    entry: str | None = None
    note: str = ""


class Search(Protocol):
    """Proposes candidates and learns from what became of them."""

    def ask(self) -> Candidate | None:
        """The next candidate; ``None`` when there is nothing left to try."""
        ...

    def tell(self, row: Row) -> None:
        """What became of the candidate asked for last."""
        ...


@dataclass
class SearchResult:
    """Candidates with their rows, in the order they were tried."""

    tried: list[tuple[Candidate, Row]] = field(default_factory=list)

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


def search(proposer: Search, task: Task, budget_s: float = 60.0, timeout_s: float = 30.0) -> SearchResult:
    """Ask, evaluate and tell until nothing is left to try or the time is over.  No candidate can end it.

    Args:
        proposer: the search.
        task: what is searched for.
        budget_s: wall time after which no further candidate is tried.
        timeout_s: wall time for one candidate.
    """
    outcome = SearchResult()
    end = time.monotonic() + budget_s
    while time.monotonic() < end and (candidate := proposer.ask()) is not None:
        row = task.evaluate(candidate.source, candidate.entry, timeout_s=timeout_s)
        outcome.tried.append((candidate, row))
        proposer.tell(row)
    return outcome
