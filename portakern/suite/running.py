"""A suite run: tasks are imported in child processes, and their kernels built and checked as any study's rows are.

A task that takes its process down, runs too long or asks for too much memory is a row like any other; the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from portakern.backend import Target
from portakern.study.row import Row
from portakern.study.slots import Slots, SlotTask, room
from portakern.study.turns import Turn, machine_memory, memory
from portakern.suite.adapter import TaskRef
from portakern.suite.importing import ImportedSample
from portakern.suite.results import NOWHERE, TaskRow
from portakern.suite.rows import HOST, Before, SuiteRows, Timed
from portakern.suite.task_module import TaskModule
from portakern.tools.workers import Job, Outcome

IMPORT_S = 180.0
"""For loading a task, its smaller sizes, its import, and both oracles."""

MEMORY_BYTES = 8 << 30
"""Of a process that imports, at least; where the machine has more, tasks at the sizes asked for may need their share of it."""

OPEN = 8
"""Tasks under way at once, where that keeps all workers busy: their works, with all weights, are held meanwhile."""

_IMPORTS = room("import", {"OMP_NUM_THREADS": "1"})
_LARGE_IMPORTS = room("import of much", {"OMP_NUM_THREADS": "1"})
"""Of tasks that their share of the memory was too small for, one at a time."""


def run(name: str, path: Path | None, tasks: Sequence[TaskRef], targets: Sequence[Target], size: str, *, jobs: int = 1,
        seed: int = 0, build_limit_s: float = 300.0, check_limit_s: float = 300.0, import_limit_s: float = IMPORT_S,
        peer: bool = False, timed: Timed | None = None, before: Sequence[TaskRow] = (),
        done: frozenset[tuple[str, str, str]] | set[tuple[str, str, str]] = frozenset(),
        sink: Callable[[TaskRow], None] = lambda row: None) -> Iterator[TaskRow]:  # fmt: skip
    """Rows as they come, each handed to ``sink`` too; what is ``done`` already is left out.

    All samples of a task on a target come together, when the last of them is finished.  Rows ``before`` are of earlier runs:
    what would be the same kernels on the same machine is not checked again on its way to be timed.
    """
    names = [str(t) for t in targets] or [NOWHERE]
    left = [(t, [n for n in names if (t.name, n, size) not in done]) for t in tasks]

    def asked(task: TaskRef, wanted: Sequence[str]) -> Job:
        given = (name, str(path) if path else None, task, size, [w for w in wanted if w != NOWHERE], seed, peer)
        return Job(("import", task.name), "portakern.suite.importing:import_task", given, {}, import_limit_s)

    found = {(*r.key, r.sample): r for r in before}

    def known(task: TaskRef, target: str, number: int, sample: ImportedSample) -> Before:
        module = TaskModule(name, str(path) if path else None, task, size, seed, number, sample.places, sample.random)
        return Before(module, found.get((task.name, target, size, number)))

    rows = SuiteRows("checked", build_limit_s, check_limit_s, full_check=False, timed=timed)
    imports = [(t, wanted, asked(t, wanted)) for t, wanted in left if wanted]
    way = SuiteUnderWay(name, size, imports, rows, known, share_of_memory(jobs), Turn(HOST) if timed is not None else None)
    with Slots(jobs) as slots:
        for _ in slots.run(way.begin(max(OPEN, 2 * jobs)), way.follow):
            for row in way.taken():
                sink(row)
                yield row


def share_of_memory(jobs: int) -> int:
    """Bytes that one of ``jobs`` processes and this one may take of the machine's memory."""
    return max(MEMORY_BYTES, machine_memory() // (jobs + 1))


class SuiteUnderWay:
    """Which tasks are open, which rows of them are missing, and which are to be told."""

    def __init__(self, name: str, size: str, tasks: Iterable[tuple[TaskRef, Sequence[str], Job]], rows: SuiteRows,
                 known: Callable[[TaskRef, str, int, ImportedSample], Before],
                 memory_bytes: int = MEMORY_BYTES, turn: Turn | None = None) -> None:  # fmt: skip
        self._name, self._size, self._rows, self._known = name, size, rows, known
        self._memory_bytes, self._turn = memory_bytes, turn
        self._left = iter(tasks)
        self._open: dict[str, tuple[TaskRef, Sequence[str]]] = {}
        self._missing: dict[tuple[str, str], int] = {}  # samples of a task on a target
        self._told: dict[tuple[str, str], list[TaskRow]] = {}
        self._bases: dict[int, TaskRow] = {}
        self._count = 0
        self._ready: list[TaskRow] = []
        rows.finished = self._finished

    def begin(self, count: int) -> list[SlotTask]:
        """The imports of the first ``count`` tasks."""
        return [task for _ in range(count) for task in self._next()]

    def follow(self, task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        """What comes of an outcome; where it ends a task, the import of the next."""
        if task.room not in (_IMPORTS, _LARGE_IMPORTS):
            more = self._rows.follow(task, outcome)
        elif task.room == _IMPORTS and _lacked_memory(outcome):
            most = memory().capacity
            return [replace(task, room=_LARGE_IMPORTS, memory_bytes=max(most, MEMORY_BYTES), needs=most)]
        else:
            more = self._imported(outcome.id[1], _samples(outcome))  # type: ignore[index]
        ended = [t for t in self._open if not any(k[0] == t for k in self._missing)]
        for name in ended:
            del self._open[name]
        return [*more, *(t for _ in ended for t in self._next())]

    def taken(self) -> list[TaskRow]:
        """The rows that were finished since this was asked last."""
        rows, self._ready = self._ready, []
        return rows

    def _next(self) -> list[SlotTask]:
        for task, wanted, job in self._left:
            self._open[task.name] = task, wanted
            self._missing |= {(task.name, target): 1 for target in wanted}
            return [SlotTask(_IMPORTS, job, self._memory_bytes, self._turn)]
        return []

    def _imported(self, name: str, samples: Sequence[ImportedSample]) -> list[SlotTask]:
        task, targets = self._open[name]
        made: list[SlotTask] = []
        for at, target in enumerate(targets):
            self._missing[name, target] = len(samples)
            if not samples:
                del self._missing[name, target]
            for number, sample in enumerate(samples):
                base = TaskRow(self._name, name, task.level, target, self._size, number, sample.imported, sample.agrees,
                               import_s=sample.seconds, error=sample.error, note=sample.note,
                               peer_launches=sample.peer_launches)  # fmt: skip
                if not sample.works:
                    self._tell(replace(base, stage=_ended(sample) if sample.error else "done"))
                    continue
                assert sample.works[at].target == target
                self._bases[self._count] = base
                self._rows.expect(self._count, self._known(task, target, number, sample))
                made.append(self._rows.begin(self._count, sample.works[at]))
                self._count += 1
        return made

    def _finished(self, index: int, row: Row) -> None:
        kernels, launches = self._rows.kernels.get(index), self._rows.launches.get(index)
        self._rows.forget(index)
        self._tell(_judged(self._bases.pop(index), row, kernels, launches))

    def _tell(self, row: TaskRow) -> None:
        key = (row.task, row.target)
        told = self._told.setdefault(key, [])
        told.append(row)
        self._missing[key] -= 1
        if not self._missing[key]:
            del self._missing[key]
            self._ready += sorted(self._told.pop(key), key=lambda r: r.sample)


def _lacked_memory(outcome: Outcome) -> bool:
    """Whether a task that is imported met the limit of its process: by an allocation of its own code, or by dying."""
    if outcome.error is not None:
        return outcome.error.kind == "memory"
    said = " ".join((x.error or {}).get("message", "") for x in outcome.value)
    return any(words in said for words in ("can't allocate memory", "Unable to allocate", "MemoryError", "bad_alloc"))


def _samples(outcome: Outcome) -> tuple[ImportedSample, ...]:
    if outcome.error is not None:
        return (ImportedSample(error=outcome.error.to_dict()),)
    return outcome.value


def _ended(sample: ImportedSample) -> str:
    if sample.agrees is False:
        return "agreement"
    return "import" if sample.size else "task"


def _judged(base: TaskRow, row: Row, kernels: str | None, launches: int | None) -> TaskRow:
    return replace(base, stage=_stage(row), correct=row.correct, evidence=row.evidence, error=row.error,
                   max_error_ratio=row.max_error_ratio, time=row.time,
                   row=_short(row) | ({"kernels": kernels} if kernels else {}),
                   launches=launches or (row.schedule.count(";") + 1 if row.schedule else None),
                   peer_launches=_launches_of_peer(row) if base.peer_launches is None else base.peer_launches)  # fmt: skip


def _stage(row: Row) -> str:
    if row.correct:
        return "done" if row.error is None else "time"
    return "check" if row.evidence in ("compiled", "executed") or row.correct is False else "build"


def _launches_of_peer(row: Row) -> int | None:
    """What torch.compile made of the task where it was timed."""
    return next((p["launches"] for p in (row.time or {}).get("peers", ()) if p.get("launches") is not None), None)


def _short(row: Row) -> dict[str, Any]:
    kept = ("device", "dtype", "method", "schedule", "source_hash", "resources")
    return {k: v for k, v in row.to_dict().items() if k in kept}
