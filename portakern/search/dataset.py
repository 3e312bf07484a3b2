"""Data sets of verified kernels: lines of JSON that say what was asked, with the text, where it came from, and its row.

A line is believed by nobody: :func:`verify` judges its text again, with a secret of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError, UsageError
from portakern.registry import registry
from portakern.search.history import History
from portakern.spec.load import load_operator
from portakern.spec.operator import dynamic
from portakern.study.candidate import Candidate
from portakern.study.judging import Judge, Limits
from portakern.study.row import Row
from portakern.study.work import Problem, Work, works

FORM = 1
"""Of the lines; raised when their keys change."""


@dataclass(frozen=True)
class Entry:
    """A kernel that passed a search's check: ``task`` as :func:`portakern.search.history.task_of` has it."""

    task: Mapping[str, Any]
    level: str
    candidate: Candidate
    row: Row

    def line(self) -> str:
        c = self.candidate
        told = {"id": c.id, "source": c.source, "entry": c.entry, "note": c.note, "move": c.move, "parents": list(c.parents),
                "meta": dict(c.meta)}  # fmt: skip
        data = {"portakern_kernels": FORM, "task": dict(self.task), "level": self.level, **told, "row": self.row.to_dict()}
        return json.dumps(data, default=str)

    @staticmethod
    def read(line: str, where: str = "") -> Entry:
        """Raises :class:`UsageError` for a line that is none."""
        try:
            data = json.loads(line)
            if data["portakern_kernels"] != FORM:
                form = data["portakern_kernels"]
                raise UsageError(f"{where}: form {form} of a data set is not known", hint="update portakern")
            candidate = Candidate(data["source"], data["entry"], data["note"], tuple(data["parents"]), data["move"],
                                  data["meta"])  # fmt: skip
            if not isinstance(candidate.source, str):
                raise ValueError("source is no text")
            return Entry(data["task"], data["level"], candidate, Row.from_dict(data["row"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{where}: no kernel of a data set ({type(error).__name__}: {error})",
                             hint="files are made by `portakern dataset export`") from error  # fmt: skip


def entries(history: History, search: str | None = None) -> Iterator[Entry]:
    """The correct kernels of a search by name, or of all, in the order in which they were asked for."""
    for number, name, task, level in history.searches():
        if search in (None, name):
            yield from (Entry(task, level, t.candidate, t.row) for t in history.past(number).told if t.row.correct)


def read(file: str | Path) -> Iterator[Entry]:
    """Raises :class:`UsageError` for a file that is none."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the data set {file}: {error}") from error
    return (Entry.read(line, f"{file}:{n}") for n, line in enumerate(lines, 1) if line.strip())


@dataclass(frozen=True)
class Verified:
    """An entry with the row of today."""

    entry: Entry
    row: Row

    @property
    def holds(self) -> bool:
        return self.row.correct is True and self.row.error is None


def verify(found: Iterable[Entry], level: str = "full", workers: int = 2, limits: Limits | None = None, jail: str = "auto"
           ) -> Iterator[Verified]:  # fmt: skip
    """Every entry judged again, those of one task together.  One whose task cannot be made again is a row with the reason."""
    by_task: dict[str, list[Entry]] = {}
    for entry in found:
        by_task.setdefault(json.dumps(dict(entry.task), sort_keys=True), []).append(entry)
    for same in by_task.values():
        try:
            work = work_of(same[0].task)
        except PortakernError as error:
            yield from (Verified(e, e.row.but(correct=None).failed(error)) for e in same)
            continue
        with Judge(work, workers, level, limits, jail) as judge:
            for entry, row in zip(same, judge.map(e.candidate for e in same), strict=True):
                yield Verified(entry, row)


def work_of(task: Mapping[str, Any]) -> Work:
    """Raises :class:`UsageError` where its operator is not here, or means something else by now."""
    op = load_operator(str(task["operator"]))
    dims = {n: dynamic if s is None else tuple(s) if isinstance(s, list) else s for n, s in (task["shape"] or {}).items()}
    typical = dict(op.typical.dims) == dims and dict(op.typical.params) == dict(task["params"] or {})
    problem = Problem(op, dims, task["params"] or {}, op.typical.inputs if typical else {})
    (work,) = works(problem, [registry().target(str(task["target"]))], [str(task["dtype"])], open_sizes=task["sizes"])
    return work
