"""One search, several vendors: the schedules of an operator, tried through the generator's door alone.

    python examples/search_schedules.py [OPERATOR] [TARGET ...]

On silicon that is here a candidate is timed; elsewhere it is compiled and interpreted, and what its machine code uses
decides.  The search knows no vendor: it sees a task, proposes texts and gets rows.
"""

from __future__ import annotations

import random
import sys

import portakern as pk
from portakern.search import Candidate, score, search
from portakern.study.row import Row
from portakern.study.task import Task


class HillClimb:
    """Starts from the default schedule and moves to random ones, keeping to the half of the space around the best."""

    def __init__(self, task: Task, tries: int = 4) -> None:
        self.task, self.tries = task, tries
        self.untried = list(task.space)
        self.best: tuple[int, Row] | None = None
        self.asked = 0
        self.random = random.Random(0)

    def ask(self) -> Candidate | None:
        if not self.tries or not self.untried:
            return None
        self.tries -= 1
        near = self.untried if self.best is None else sorted(self.untried, key=self.distance)[: max(1, len(self.untried) // 2)]
        schedule = self.untried[0] if self.best is None else self.random.choice(near)
        self.untried.remove(schedule)
        self.asked = self.task.space.index(schedule)
        return Candidate(self.task.kernel(schedule), self.task.entry, schedule)

    def distance(self, schedule: str) -> int:
        assert self.best is not None
        return abs(self.task.space.index(schedule) - self.best[0])

    def tell(self, row: Row) -> None:
        if row.correct and (self.best is None or score(row) < score(self.best[1])):
            self.best = (self.asked, row)


def main(operator: str = "softmax", *targets: str) -> None:
    for target in targets or ("numba:cpu", "hip:gfx942", "triton:sm_90", "pallas:v5e"):
        task = pk.task(operator, target, dtype="f32", M=64, N=512)
        outcome = search(HillClimb(task), task, budget_s=30)
        print(f"{target}: tried {len(outcome.tried)} of {len(task.space)} schedules")
        for candidate, row in outcome.tried:
            what = f"{row.time['median_us']:.1f} us" if row.time else row.evidence if row.correct else row.error
            print(f"  {what}: {candidate.note}")
        if outcome.best:
            print(f"  best: {outcome.best[0].note}")


if __name__ == "__main__":
    main(*sys.argv[1:])
