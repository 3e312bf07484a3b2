"""The tuner's way of proposing, through the generator's door: without what cannot be or is far behind, an optimiser on top."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.search.run import score
from portakern.study import steps
from portakern.study.candidate import Candidate
from portakern.study.row import Row
from portakern.study.task import Task
from portakern.tuning.cost import FAR_BEHIND
from portakern.tuning.proposers import proposer_for
from portakern.tuning.space import Point, space_of, text
from portakern.tuning.tuner import nests_of


class Guided:
    """Proposes the kernels that portakern emits under the schedules worth trying, best guesses first.

    ``portakern tune`` searches the same space with races between candidates, which is the better way on a device; this one
    needs nothing but :meth:`portakern.study.task.Task.evaluate`, and fits wherever a search does.

    Args:
        task: what is searched for.
        seed: of the optimiser.

    Attributes:
        dropped: how many schedules were not proposed, by reason.
    """

    def __init__(self, task: Task, seed: int = 0) -> None:
        self.task = task
        self._work = replace(task.work, schedule={}, chosen=None)
        target = registry().target(self._work.target)
        self.space = space_of(nests_of(self._work), registry().language(target.language), target.device)
        self.proposer = proposer_for(self.space, seed).proposer
        self.dropped: Counter[str] = Counter()
        self._least = self.space.cost(self.space.default)
        self._asked: Point | None = None
        self._seen: set[str] = set()

    def ask(self) -> Candidate | None:
        while (point := self.proposer.ask()) is not None:
            reason = self.space.refused(point) or self._far_behind(point)
            try:
                source = None if reason else steps.emit(replace(self._work, chosen=self.space.chosen(point)))[0]
            except PortakernError as error:
                source, reason = None, f"cannot be emitted ({error.kind})"
            if source is not None and source.digest not in self._seen:
                self._seen.add(source.digest)
                self._asked = point
                return Candidate(source.text, source.entry, text(point))
            self.dropped[reason or "the same kernel as another"] += 1
            self.proposer.tell(point, None)
        return None

    def tell(self, row: Row) -> None:
        """What became of the candidate asked for last."""
        if self._asked is not None:
            level, *figures = score(row)
            # Figures of a binary rank kernels and are no times: the optimiser learns from times and estimates.
            self.proposer.tell(self._asked, figures[0] if row.correct and level < 2 else None)
            self._asked = None

    def _far_behind(self, point: Point) -> str:
        cost = self.space.cost(point)
        if cost is None or self._least is None:
            return ""
        self._least = min(self._least, cost)
        return f"estimated at over {FAR_BEHIND:g} times the best" if cost > FAR_BEHIND * self._least else ""
