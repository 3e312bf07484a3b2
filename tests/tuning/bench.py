"""A laboratory whose times are known: kernels are emitted for real, compiled never, and timed by a formula with noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from portakern.api import one
from portakern.errors import PortakernError
from portakern.ir.schedule import Schedule
from portakern.spec.load import load_operator
from portakern.study.row import Row
from portakern.study.steps import Build
from portakern.study.work import Problem, Work, works
from portakern.tuning.lab import ScheduleCandidate

Times = Callable[[Schedule], float]


def work_of(name: str = "add_relu", target: str = "cuda:h200", dtype: str = "bf16", **dims: int) -> Work:
    operator = load_operator(name)
    (work,) = works(Problem(operator, dims or {"M": 8192, "N": 8192}, {}), [one(target)], [dtype], "default")
    return work


class Planted:
    """Times in microseconds by schedule, with noise of its own for each sample and drift that all share.

    Args:
        times: of a schedule.
        noise: relative standard deviation of a sample.
        wrong: schedules whose results differ at once; ``subtle`` those that only the whole check finds.
        spills: schedules whose binaries spill.
        interrupt_after: how many measurements until Ctrl-C.
    """

    def __init__(
        self,
        times: Times,
        noise: float = 0.03,
        wrong: Callable[[Schedule], bool] = lambda s: False,
        subtle: Callable[[Schedule], bool] = lambda s: False,
        spills: Callable[[Schedule], bool] = lambda s: False,
        interrupt_after: int | None = None,
        overlap: bool = True,
        seed: int = 0,
    ) -> None:
        self.times, self.noise, self.wrong, self.subtle, self.spills = times, noise, wrong, subtle, spills
        self.interrupt_after, self.overlap = interrupt_after, overlap
        self.rng = np.random.default_rng(seed)
        self.schedules: dict[str, Schedule] = {}
        self.compiled: list[str] = []
        self.samples: dict[str, int] = {}
        self.checked: list[str] = []
        self.measurements = 0

    def begin(self, work: Work) -> None:
        self.schedules.clear()

    def builds(self, first: Sequence[ScheduleCandidate],
               follow: Callable[[], Sequence[ScheduleCandidate]]) -> Iterator[tuple[ScheduleCandidate, Build]]:
        waiting = list(first)
        while waiting:
            candidate = waiting.pop(0)
            waiting += follow()
            assert candidate.work.chosen is not None
            schedule = candidate.work.chosen.nests[0].schedule
            self.schedules[candidate.name] = schedule
            self.compiled.append(str(schedule))
            used = {"spills": 500 if self.spills(schedule) else 0, "occupancy": 0.5}
            yield candidate, Build(candidate.work.row.but(resources=used), candidate.source, "key", "runtime")

    def admit(self, candidate: ScheduleCandidate, made: Build) -> PortakernError | None:
        wrong = self.wrong(self.schedules[candidate.name])
        return PortakernError("incorrect", "another result than the default's") if wrong else None

    def measure(self, names: Sequence[str], samples: int) -> Mapping[str, Sequence[float] | PortakernError]:
        self.measurements += 1
        if self.interrupt_after is not None and self.measurements > self.interrupt_after:
            raise KeyboardInterrupt
        # The clock wanders by a fifth, from sample to sample and for all alike.
        drift = 1 + 0.2 * np.abs(np.cumsum(self.rng.normal(0, 0.02, samples)))
        found = {}
        for name in names:
            schedule = self.schedules[name]
            own = self.rng.lognormal(0, self.noise, samples)
            found[name] = list(self.times(schedule) * own * drift)
            self.samples[str(schedule)] = self.samples.get(str(schedule), 0) + samples
        return found

    def check(self, candidate: ScheduleCandidate, made: Build) -> Row:
        schedule = self.schedules[candidate.name]
        self.checked.append(str(schedule))
        if self.subtle(schedule):
            return made.row.but(correct=False).failed(PortakernError("incorrect", "one element is wrong"))
        return made.row.but(correct=True, max_error_ratio=0.5)

    def time(self, candidate: ScheduleCandidate, row: Row, made: Build) -> Row:
        return row.but(time={"median_us": self.times(self.schedules[candidate.name])})

    def facts(self) -> Mapping[str, Any]:
        return {"device": "a device that is not", "driver": "1", "mode": "planted"}
