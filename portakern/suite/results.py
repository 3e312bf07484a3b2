"""The result of a suite: one line for each task, sample and target, kept in a file as it comes, so that a run resumes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError, UsageError

NOWHERE = "-"
"""In place of a target, where tasks are only imported and held against PyTorch."""


@dataclass(frozen=True)
class TaskRow:
    """What came of one sample of a task on one target.

    Args:
        suite, task, level, sample, target, size: what was asked.
        imported: whether there is a tensor program.
        agrees: whether PyTorch in float64 computes the same as our oracle; ``None`` where it was not held against it.
        correct: whether the kernels are within their bounds of the oracle; ``None`` where none ran.
        evidence: as a study's row has it.
        launches: kernels.
        peer_launches: kernels and library calls of torch.compile on this machine's CPU, where asked for.
        import_s: seconds for the import.
        time: as a study's row has it, without samples; its peers are the task's module, by PyTorch as it is and compiled.
        stage: how far it came: task, import, agreement, build, check, time, or done.
        error: what ended it.
        note: what was made smaller.
    """

    suite: str
    task: str
    level: str
    target: str
    size: str
    sample: int = 0
    imported: bool = False
    agrees: bool | None = None
    correct: bool | None = None
    evidence: str | None = None
    max_error_ratio: float | None = None
    launches: int | None = None
    peer_launches: int | None = None
    import_s: float | None = None
    stage: str = "task"
    error: Mapping[str, str] | None = None
    note: str = ""
    row: Mapping[str, Any] | None = field(default=None, repr=False)
    time: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def may_be_timed(self) -> bool:
        """Whether it is right, on silicon, and was not timed yet."""
        return self.correct is True and self.evidence == "executed" and self.error is None

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.task, self.target, self.size)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read(file: Path) -> list[TaskRow]:
    """The rows of a file, where one was made again the later; a last line that was cut off is left out."""
    if not file.is_file():
        return []
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
            found.append(TaskRow(**{k: v for k, v in data.items() if k in TaskRow.__dataclass_fields__}))
        except (ValueError, TypeError):
            continue
    return latest(found)


def latest(rows: Iterable[TaskRow]) -> list[TaskRow]:
    """Without rows that were made again later."""
    return list({(*r.key, r.sample): r for r in rows}.values())


class Keeper:
    """Appends rows to a file as they come."""

    def __init__(self, file: Path, resume: bool) -> None:
        self.file = file
        if file.exists() and not resume:
            raise UsageError(f"{file} holds results already", hint="go on with them by --resume, or name another file by --out")
        self.rows = read(file) if resume else []

    def __call__(self, row: TaskRow) -> None:
        self.rows = latest([*self.rows, row])
        try:
            with self.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row.to_dict(), default=str) + "\n")
        except OSError as error:
            raise PortakernError("output", f"cannot write {self.file}: {error.strerror}",
                                 hint="name another by --out") from error

    def done(self, timed: bool = False) -> set[tuple[str, str, str]]:
        """The keys of rows that need not be made; where they are to be ``timed``, without those that may be and were not."""
        return {r.key for r in self.rows} - {r.key for r in self.rows if timed and r.may_be_timed}


def by_task(rows: Iterable[TaskRow]) -> Iterator[tuple[tuple[str, str], list[TaskRow]]]:
    """Rows of one task and target together, which are its samples."""
    found: dict[tuple[str, str], list[TaskRow]] = {}
    for r in rows:
        found.setdefault((r.task, r.target), []).append(r)
    yield from found.items()
