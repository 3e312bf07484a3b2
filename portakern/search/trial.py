"""What became of a candidate."""

from __future__ import annotations

from dataclasses import dataclass

from portakern.study.candidate import Candidate
from portakern.study.row import Row


@dataclass(frozen=True)
class Trial:
    """A candidate, its row, the seconds that it took from being handed in, and whether it was known from before."""

    candidate: Candidate
    row: Row
    seconds: float = 0.0
    known: bool = False

    @property
    def id(self) -> str:
        return self.candidate.id
