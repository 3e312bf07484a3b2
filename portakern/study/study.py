"""Running many rows: the works in, the rows out in the same order, with two workers over all languages by default."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.study import steps
from portakern.study.operations import Operation
from portakern.study.porting import PortingNote, notes_text
from portakern.study.provenance import environment
from portakern.study.row import Row, without_samples
from portakern.study.row_schema import SCHEMA
from portakern.study.slots import Slots, SlotTask
from portakern.study.steps import Build
from portakern.study.table import text_table
from portakern.study.under_way import BUILD_LIMIT_S, CHECK_LIMIT_S, GOALS, RowsUnderWay
from portakern.study.work import Work
from portakern.tools.cache import Cache
from portakern.version import __version__

Progress = Callable[[int, int, Row], None]


@dataclass(frozen=True)
class SourceFacts:
    """What is known of a source beside its text: the ending of its file, and the tile operations of its kernels."""

    suffix: str
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True)
class Study:
    """Rows with the machine they were taken on.  Those joined from elsewhere keep an environment of their own.

    ``sources``, ``source_facts`` and ``assemblies`` are by the hashes of rows, ``porting`` says what differs between the
    targets of a comparison, ``files`` where the operators stand that are not in the library.
    """

    rows: tuple[Row, ...]
    environment: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    assemblies: dict[str, str] = field(default_factory=dict)
    porting: tuple[PortingNote, ...] = ()
    source_facts: dict[str, SourceFacts] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        """One line: a study has the sources of all its rows in it."""
        from portakern.study.table import levels

        names = ", ".join(dict.fromkeys(r.operator for r in self.rows))
        targets = len({r.target for r in self.rows})
        return f"<Study of {names or 'nothing'}: {len(self.rows)} rows on {targets} targets, {levels(self.rows) or 'no rows'}>"

    def _repr_html_(self) -> str:
        from portakern.study.report.notebook import study_html

        return study_html(self)

    def table(self) -> str:
        """Plain text, one line per row, and below it what differs between the targets."""
        return "\n".join([text_table(self.rows), *([notes_text(self.porting)] if self.porting else [])])

    def to_dict(self, samples: bool = False) -> dict[str, Any]:
        """As the commands' JSON; with the raw samples of every time where ``samples`` is set."""
        rows = [(r if samples else without_samples(r)).to_dict() for r in self.rows]
        porting = {"porting": [n.to_dict() for n in self.porting]} if self.porting else {}
        return {"portakern": __version__, "schema": SCHEMA, "environment": self.environment, "rows": rows, **porting}

    def to_json(self, file: str | Path | None = None, samples: bool = False) -> str:
        """The JSON text, also written to ``file`` where one is named."""
        text = json.dumps(self.to_dict(samples), indent=1, default=str)
        if file is not None:
            write_text(file, text + "\n")
        return text

    def to_html(self, file: str | Path | None = None) -> str:
        """One self-contained page, also written to ``file`` where one is named."""
        from portakern.study.report import page

        text = page(self)
        if file is not None:
            write_text(file, text)
        return text


def write_text(file: str | Path, text: str) -> None:
    """Raises :class:`PortakernError` of kind ``output`` where the file cannot be written."""
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise PortakernError("output", f"cannot write {file}: {error.strerror}", hint="name another file") from error


class StudyInterrupted(KeyboardInterrupt):
    """Ctrl-C while rows were made: ``study`` has those that were finished, ``goal`` is what they were to reach."""

    def __init__(self, study: Study, goal: str) -> None:
        super().__init__()
        self.study, self.goal = study, goal


class Runner:
    """Takes works as far as a goal.

    Args:
        goal: one of :data:`GOALS`.
        jobs: how many workers run at once.
        progress: called with (rows finished, rows in all, the row that has just been finished).
        memory_bytes: limit on each worker's memory.
        build_limit_s, check_limit_s: wall time for compiling and for running and checking one row.
        keep_sources: whether the study carries sources and assemblies, for the report.
        timing: what :func:`portakern.study.timing.time` is given.
        full_check: whether sizes for which the oracle would take minutes are checked in full all the same.
        sink: called with each row as it is finished, such as :meth:`portakern.study.keeping.Keeper.__call__`.
    """

    def __init__(
        self,
        goal: str = "checked",
        jobs: int = 2,
        progress: Progress | None = None,
        memory_bytes: int | None = None,
        build_limit_s: float = BUILD_LIMIT_S,
        check_limit_s: float = CHECK_LIMIT_S,
        keep_sources: bool = False,
        timing: Mapping[str, Any] | None = None,
        full_check: bool = True,
        sink: Callable[[Row], None] | None = None,
    ) -> None:
        assert goal in GOALS
        self.goal, self.jobs, self.progress, self.memory_bytes = goal, jobs, progress, memory_bytes
        self.keep_sources, self.sink = keep_sources, sink
        self._limits = (build_limit_s, check_limit_s)
        self._timing, self._full_check = dict(timing or {}), full_check

    def run(self, works: Sequence[Work]) -> Study:
        """One row per work, in their order.  Raises :class:`CacheError` at once where the cache cannot be written, and
        :class:`StudyInterrupted` at Ctrl-C."""
        if not works:
            return Study((), environment())
        if self.goal != "emitted":
            Cache().check_writable()
        rows: dict[int, Row] = {}

        def finished(index: int, row: Row) -> None:
            rows[index] = row
            if self.sink is not None:
                self.sink(row)
            if self.progress is not None:
                self.progress(len(rows), len(works), row)

        # Another worker would take the caches and cores of what is timed: it waits until the others have ended.
        to_time: list[SlotTask] = []
        self._way = RowsUnderWay(self.goal, *self._limits, self._timing, self._full_check, finished,
                                 to_time.append if self.jobs > 1 else None, shared=_shared(works))  # fmt: skip
        try:
            self._perform([self._way.begin(i, w) for i, w in enumerate(works)], min(self.jobs, len(works)))
            self._perform(to_time, 1)
        except KeyboardInterrupt:
            raise StudyInterrupted(Study(tuple(rows[i] for i in sorted(rows)), environment()), self.goal) from None
        study = Study(tuple(rows[i] for i in range(len(works))), environment(), files=files_of(works))
        return replace(study, **self._texts()) if self.keep_sources else study

    def _perform(self, tasks: Sequence[SlotTask], jobs: int) -> None:
        if tasks:
            with Slots(jobs, self.memory_bytes) as slots:
                for _ in slots.run(tasks, self._way.follow):
                    pass

    def made(self, index: int) -> Build:
        """What was built for the work of this number in the last run."""
        return self._way.made[index]

    def _texts(self) -> dict[str, Any]:
        """Sources and assemblies by hash, for the report."""
        sources: dict[str, str] = {}
        facts: dict[str, SourceFacts] = {}
        assemblies: dict[str, str] = {}
        for made in self._way.made.values():
            if made.source is not None:
                sources[made.source.digest] = made.source.text
                facts[made.source.digest] = SourceFacts(made.source.suffix, made.operations)
            if made.binary_key and (binary := steps.cached_binary(made.binary_key)) and binary.assembly:
                assemblies[binary.digest] = binary.assembly
        return {"sources": sources, "source_facts": facts, "assemblies": assemblies}


def _shared(works: Sequence[Work]) -> dict[str, str] | None:
    names = dict.fromkeys(w.target.partition(":")[0] for w in works)
    return steps.shared_environment(registry().language(n) for n in names)


def files_of(works: Sequence[Work]) -> dict[str, str]:
    """Where the operators stand that are not in the library, as seen from here."""
    inside = Path(__file__).parents[1] / "operators"
    found = {w.row.operator: Path(w.file) for w in works if w.file and Path(w.file).parent != inside}
    here = Path.cwd()
    return {name: str(f.relative_to(here) if f.is_relative_to(here) else f) for name, f in found.items()}
