"""The rows of a suite under way: checked, and where that is asked and their silicon is here, timed against the task's module.

While one is timed on a device nothing else runs there; on this machine's processor, which imports and compiles too, nothing
else at all.  A row that was checked before is not checked again where it would be the same kernels on the same machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.study import steps
from portakern.study.provenance import machine_id
from portakern.study.row import Row
from portakern.study.slots import SlotTask
from portakern.study.steps import Build
from portakern.study.turns import Turn, here
from portakern.study.under_way import RowsUnderWay
from portakern.study.work import Work
from portakern.suite.results import TaskRow
from portakern.suite.task_module import TaskModule
from portakern.tools.cache import digest
from portakern.tools.workers import Outcome

HOST = "host"

PEERS = ("torch.eager", "torch.compile")
"""What a task's kernels are timed against: its own module, as it is and compiled."""


@dataclass(frozen=True)
class Timed:
    """What rows are timed against, for how many seconds each in all, with which caches, and how long a timing may take with all
    that is around it."""

    against: Sequence[str] = PEERS
    budget_s: float = 10.0
    cache: str = "cold"
    limit_s: float = 600.0

    def options(self) -> dict[str, Any]:
        """Of :class:`portakern.timing.measure.Options`, whose budget is per contender."""
        return {"budget_s": self.budget_s / (1 + len(self.against)), "cache": self.cache,
                "deadline_s": max(10.0, self.limit_s / 10)}  # fmt: skip


@dataclass(frozen=True)
class Before:
    """What is known of a row before it is made: the task that it is of, and what an earlier run found of it."""

    of: TaskModule
    found: TaskRow | None = None


@dataclass
class SuiteRows(RowsUnderWay):
    """Args:
        timed: how rows are timed, where they are to be.
    """  # fmt: skip

    timed: Timed | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._told: dict[int, Before] = {}
        self._lost: dict[int, dict[str, str]] = {}
        self.kernels: dict[int, str] = {}
        self.launches: dict[int, int] = {}

    def expect(self, index: int, before: Before) -> None:
        """What is known of the row that is begun next."""
        self._told[index] = before

    def forget(self, index: int) -> None:
        super().forget(index)
        for known in (self._told, self._lost, self.kernels, self.launches):
            known.pop(index, None)

    def follow(self, task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        index, step = outcome.id  # type: ignore[misc]
        if step == "build" and outcome.error is None and outcome.value.source is not None:
            self.launches[index] = len(outcome.value.source.launches)
        if step == "build" and outcome.error is None and outcome.value.runner and outcome.value.row.error is None:
            self.kernels[index] = kernels = kernels_of(self._works[index], outcome.value)
            before = self._told[index].found if index in self._told else None
            if before is not None and before.correct and (before.row or {}).get("kernels") == kernels:
                self._made[index] = replace(outcome.value, row=_as_found(outcome.value.row, before))
                if self._wants_time(self._made[index]):
                    return [self._timing(index)]
        return super().follow(task, outcome)

    def _wants_time(self, made: Build) -> bool:
        return self.timed is not None and made.runner == "runtime" and bool(made.row.correct)

    def _task(self, index: int, step: str, args: tuple[Any, ...], limit_s: float) -> SlotTask:
        if step == "time":
            return self._timing(index)
        task = super()._task(index, step, args, limit_s)
        if self.timed is None:
            return task
        device = device_of(self._works[index]) if step == "check" else HOST
        if device == HOST:
            return replace(task, turn=Turn(HOST))
        return replace(task, job=replace(task.job, kwargs={**task.job.kwargs, "turn": device}))

    def _timing(self, index: int, lost: Mapping[str, str] | None = None) -> SlotTask:
        """In a process of its own kind: torch has all cores there, and the device's memory once the others gave it back."""
        assert self.timed is not None
        made = self._made[index]
        against = [p for p in self.timed.against if p not in (lost or {})]
        task = super()._task(index, "time", (self._works[index], made), self.timed.limit_s)
        job = replace(task.job, function="portakern.suite.timing:time",
                      kwargs={"of": self._told[index].of, "against": against, "options": self.timed.options(), "lost": lost})
        language, environment = task.room
        return replace(task, room=(f"time {language}", environment), job=job,
                       turn=Turn(device_of(self._works[index]), alone=True))  # fmt: skip

    def _without_peers(self, index: int, error: PortakernError) -> SlotTask | None:
        """Once more without the last peer, the likeliest to have taken the process down; ``None`` if there was none."""
        assert self.timed is not None
        lost = self._lost.setdefault(index, {})
        left = [p for p in self.timed.against if p not in lost]
        if not left:
            return None
        lost[left[-1]] = f"{error.message}; timed without it since"
        return self._timing(index, lost)


def device_of(work: Work) -> str:
    """What runs the kernels, as turns name it."""
    target = registry().target(work.target)
    runner, _ = steps.runner_for(registry().language(target.language), target)
    device = target.device
    return HOST if runner != "runtime" or device.kind == "cpu" else here(f"{device.vendor} {device.kind}")


def kernels_of(work: Work, made: Build) -> str:
    """Tells kernels from others, and machines: the math, the texts, what runs them and where."""
    assert made.source is not None
    prepared = made.preparation.digest if made.preparation is not None else ""
    return digest("suite", work.program.digest, made.source.digest, prepared, made.runner, machine_id())[:16]


def _as_found(row: Row, before: TaskRow) -> Row:
    """The row of a build as it was after its check."""
    kept = before.row or {}
    return row.but(correct=True, evidence="executed", max_error_ratio=before.max_error_ratio, device=kept.get("device"),
                   method=kept.get("method"))  # fmt: skip
