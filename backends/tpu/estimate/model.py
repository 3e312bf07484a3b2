"""From the profile of a part of a grid to the whole: turns of the pipeline's loop that do the same work take the same time.

In turn t of the loop the blocks of step t are fetched, step t-1 is computed and its outputs are sent.  What a turn costs is
decided by which of these happen and by the branches that the step takes.  A part shows turns of each kind, the grid says how
many there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TurnKind = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class GridSteps:
    """What the steps of a grid, or of a part of it, do: [steps, things]."""

    taken: np.ndarray
    fetched: np.ndarray
    sent: np.ndarray

    def __len__(self) -> int:
        return len(self.taken)

    def kinds(self, turns: int) -> list[TurnKind]:
        """The kind of every turn of a loop of ``turns`` turns: from the most telling property to the least."""
        lead = max(0, turns - len(self) - 1)
        found = []
        for turn in range(turns):
            step = turn - lead
            found.append((self._at(self.taken, step), self._at(self.fetched, step + 1), self._at(self.sent, step),
                          self._at(self.fetched, step), self._at(self.sent, step - 1)))  # fmt: skip
        return found

    def _at(self, what: np.ndarray, step: int) -> tuple[int, ...] | None:
        return tuple(map(int, what[step])) if 0 <= step < len(self) else None


@dataclass(frozen=True)
class Extrapolated:
    """Cycles of the whole grid; ``seen`` is the share of its turns whose kind the part has shown."""

    cycles: float
    seen: float


def extrapolate(cycles: int, marks: Sequence[int], part: GridSteps, whole: GridSteps) -> Extrapolated:
    """Cycles of ``whole`` from those of ``part``, whose turns begin at ``marks`` (the last mark is the end).

    Without marks (no loop was found) the cycles are scaled by the number of steps.
    """
    if len(part) == len(whole):
        return Extrapolated(float(cycles), 1.0)
    if len(marks) < 3:
        return Extrapolated(cycles * len(whole) / len(part), 0.0)
    took = np.diff(np.asarray(marks, float))
    extra = len(took) - len(part)
    known = _means(part.kinds(len(took)), took)
    total, seen = float(cycles - took.sum()), 0
    kinds = Counter(whole.kinds(len(whole) + extra))
    for kind, count in kinds.items():
        length = next(n for n in range(len(kind), -1, -1) if kind[:n] in known)
        total += count * known[kind[:length]]
        seen += count * (length == len(kind))
    return Extrapolated(total, seen / kinds.total())


def _means(kinds: Sequence[TurnKind], took: np.ndarray) -> dict[TurnKind, float]:
    """Mean time by kind, and by what kinds begin with.  The first of several turns of a kind is a start, and is left out."""
    times: dict[TurnKind, list[float]] = defaultdict(list)
    for kind, time in zip(kinds, took, strict=True):
        for n in range(len(kind) + 1):
            times[kind[:n]].append(time)
    return {k: float(np.mean(t[1:] if len(t) > 3 else t)) for k, t in times.items()}
