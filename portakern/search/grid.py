"""The simplest search: every schedule of the task's space, default first."""

from __future__ import annotations

from portakern.errors import PortakernError
from portakern.search.trial import Trial
from portakern.study.candidate import Candidate
from portakern.study.task import Task


class Grid:
    """Tries the schedules that the backend allows, each as the kernel that portakern emits for it.

    Args:
        task: what is searched for.
        most: how many to try.
    """

    def __init__(self, task: Task, most: int | None = None) -> None:
        self.task = task
        self._left = list(task.space[:most])
        self.trials: list[Trial] = []

    def ask(self, n: int) -> list[Candidate]:
        found: list[Candidate] = []
        while self._left and len(found) < n:
            schedule = self._left.pop(0)
            try:
                found.append(Candidate(self.task.kernel(schedule), self.task.entry, schedule))
            except PortakernError:
                continue  # the space is filtered by limits, and a schedule may still not fit this operator
        return found

    def tell(self, trial: Trial) -> None:
        self.trials.append(trial)
