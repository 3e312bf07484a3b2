"""A suite run: tasks are imported in child processes, and their kernels built and checked as any study's rows are.

A task that takes its process down, runs too long or asks for too much memory is a row like any other; the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from portakern.backend import Target
from portakern.study.row import Row
from portakern.study.study import Runner
from portakern.suite.adapter import TaskRef
from portakern.suite.importing import ImportedSample
from portakern.suite.results import NOWHERE, TaskRow
from portakern.tools.workers import Job, WorkerPool

IMPORT_S = 180.0
"""For loading a task, its smaller sizes, its import, and both oracles."""

MEMORY_BYTES = 8 << 30
"""Of the process that imports."""

BATCH = 8
"""Tasks imported before their kernels are built: what is kept at once, and what an interrupt loses at most."""


def run(name: str, path: Path | None, tasks: Sequence[TaskRef], targets: Sequence[Target], size: str, *, jobs: int = 1,
        seed: int = 0, build_limit_s: float = 300.0, check_limit_s: float = 300.0, import_limit_s: float = IMPORT_S,
        peer: bool = False,
        done: frozenset[tuple[str, str, str]] | set[tuple[str, str, str]] = frozenset(),
        sink: Callable[[TaskRow], None] = lambda row: None) -> Iterator[TaskRow]:  # fmt: skip
    """Rows as they come, each handed to ``sink`` too; what is ``done`` already is left out."""
    names = [str(t) for t in targets] or [NOWHERE]
    left = [(t, [n for n in names if (t.name, n, size) not in done]) for t in tasks]
    left = [(t, wanted) for t, wanted in left if wanted]
    with WorkerPool(jobs, preload=("torch",), memory_bytes=MEMORY_BYTES, env={"OMP_NUM_THREADS": "1"}) as pool:
        for start in range(0, len(left), BATCH):
            batch = left[start : start + BATCH]
            asked = [Job(i, "portakern.suite.importing:import_task", (name, str(path) if path else None, task, size,
                         [w for w in wanted if w != NOWHERE], seed, peer), {}, import_limit_s)
                     for i, (task, wanted) in enumerate(batch)]  # fmt: skip
            found = {o.id: o for o in pool.run(asked)}
            samples = [_samples(found[i]) for i in range(len(batch))]
            for row in _rows(name, size, batch, samples, Runner("checked", jobs, build_limit_s=build_limit_s,
                                                                check_limit_s=check_limit_s, full_check=False)):  # fmt: skip
                sink(row)
                yield row


def _samples(outcome: Any) -> tuple[ImportedSample, ...]:
    if outcome.error is not None:
        return (ImportedSample(error=outcome.error.to_dict()),)
    return outcome.value


def _rows(name: str, size: str, batch: Sequence[tuple[TaskRef, list[str]]], samples: Sequence[Sequence[ImportedSample]],
          runner: Runner) -> Iterator[TaskRow]:  # fmt: skip
    works = [w for each in samples for s in each for w in s.works]
    rows = iter(runner.run(works)) if works else iter(())
    for (task, targets), each in zip(batch, samples, strict=True):
        for number, sample in enumerate(each):
            for at, target in enumerate(targets):
                base = TaskRow(name, task.name, task.level, target, size, number, sample.imported, sample.agrees,
                               import_s=sample.seconds, error=sample.error, note=sample.note,
                               peer_launches=sample.peer_launches)  # fmt: skip
                if not sample.works:
                    yield replace(base, stage=_ended(sample) if sample.error else "done")
                    continue
                assert sample.works[at].target == target
                yield _judged(base, next(rows))


def _ended(sample: ImportedSample) -> str:
    if sample.agrees is False:
        return "agreement"
    return "import" if sample.size else "task"


def _judged(base: TaskRow, row: Row) -> TaskRow:
    stage = "done" if row.correct else "check" if row.evidence in ("compiled", "executed") or row.correct is False else "build"
    return replace(base, stage=stage, correct=row.correct, evidence=row.evidence, error=row.error,
                 max_error_ratio=row.max_error_ratio, row=_short(row),
                 launches=row.schedule.count(";") + 1 if row.schedule else None)  # fmt: skip


def _short(row: Row) -> Mapping[str, Any]:
    kept = ("device", "dtype", "method", "schedule", "source_hash", "resources")
    return {k: v for k, v in row.to_dict().items() if k in kept}
