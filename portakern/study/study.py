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
from portakern.study.porting import PortingNote, notes_text
from portakern.study.provenance import environment
from portakern.study.report import page
from portakern.study.row import Row, without_samples
from portakern.study.slots import Slots, SlotTask, room
from portakern.study.steps import Build
from portakern.study.table import text_table
from portakern.study.work import Work
from portakern.tools.cache import Cache
from portakern.tools.workers import Job, Outcome, WorkerFault
from portakern.version import __version__

GOALS = ("emitted", "compiled", "checked", "timed", "compared")
"""What may be asked of a row.  ``compared`` asks for as much as this machine can do and no more."""

BUILD_LIMIT_S = 300.0
CHECK_LIMIT_S = 300.0

Progress = Callable[[int, int, Row], None]


@dataclass(frozen=True)
class Study:
    """Rows with the machine they were taken on.  Those joined from elsewhere keep an environment of their own.

    ``porting`` says what differs between the targets of a comparison.
    """

    rows: tuple[Row, ...]
    environment: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    assemblies: dict[str, str] = field(default_factory=dict)
    porting: tuple[PortingNote, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Plain text, one line per row, and below it what differs between the targets."""
        return "\n".join([text_table(self.rows), *([notes_text(self.porting)] if self.porting else [])])

    def to_dict(self, samples: bool = False) -> dict[str, Any]:
        """As the commands' JSON; with the raw samples of every time where ``samples`` is set."""
        rows = [(r if samples else without_samples(r)).to_dict() for r in self.rows]
        porting = {"porting": [n.to_dict() for n in self.porting]} if self.porting else {}
        return {"portakern": __version__, "environment": self.environment, "rows": rows, **porting}

    def to_json(self, file: str | Path | None = None, samples: bool = False) -> str:
        """The JSON text, also written to ``file`` where one is named."""
        text = json.dumps(self.to_dict(samples), indent=1, default=str)
        if file is not None:
            write_text(file, text + "\n")
        return text

    def to_html(self, file: str | Path | None = None) -> str:
        """One self-contained page, also written to ``file`` where one is named."""
        text = page(self.rows, self.environment, self.sources, self.assemblies, self.porting)
        if file is not None:
            write_text(file, text)
        return text


def write_text(file: str | Path, text: str) -> None:
    """Raises :class:`PortakernError` of kind ``output`` where the file cannot be written."""
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise PortakernError("output", f"cannot write {file}: {error.strerror}", hint="name another file") from error


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
        self.build_limit_s, self.check_limit_s = build_limit_s, check_limit_s
        self.keep_sources, self.sink = keep_sources, sink
        self.timing, self.full_check = dict(timing or {}), full_check

    def run(self, works: Sequence[Work]) -> Study:
        """One row per work, in their order.  Raises :class:`CacheError` at once where the cache cannot be written."""
        self._works = works
        self._rows: dict[int, Row] = {}
        self._made: dict[int, Build] = {}
        if not works:
            return Study((), environment())
        if self.goal != "emitted":
            Cache().check_writable()
        step = "emit_row" if self.goal == "emitted" else "build"
        self._to_time: list[SlotTask] = []
        self._alone: set[int] = set()
        self._died: dict[tuple[int, str], str] = {}
        first = [self._task(i, step, (w,), self.build_limit_s) for i, w in enumerate(works)]
        self._perform(first, min(self.jobs, len(works)))
        self._perform(self._to_time, 1)
        rows = tuple(self._rows[i] for i in range(len(works)))
        sources, assemblies = self._texts() if self.keep_sources else ({}, {})
        return Study(rows, environment(), sources, assemblies)

    def _perform(self, tasks: Sequence[SlotTask], jobs: int) -> None:
        if tasks:
            with Slots(jobs, self.memory_bytes) as slots:
                for _ in slots.run(tasks, self._follow):
                    pass

    def made(self, index: int) -> Build:
        """What was built for the work of this number in the last run."""
        return self._made[index]

    def _task(self, index: int, step: str, args: tuple[Any, ...], limit_s: float) -> SlotTask:
        target = registry().target(self._works[index].target)
        language = registry().language(target.language)
        if step in ("check", "time"):
            env = steps.run_environment(target, self._made[index].runner)
        else:
            env = steps.build_environment(language)
        module = "portakern.study.timing" if step == "time" else "portakern.study.steps"
        kwargs: dict[str, Any] = {}
        if step == "build":
            kwargs = {"estimate": self.goal == "compared", "peers": self.goal == "compared"}
        elif step == "check":
            kwargs = {"full": self.full_check}
        elif step == "time":
            kwargs = self.timing
        return SlotTask(room(language.name, env), Job((index, step), f"{module}:{step}", args, kwargs, limit_s))

    def _follow(self, task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        index, step = outcome.id  # type: ignore[misc]
        if outcome.error is not None:
            return self._after_crash(index, step, outcome.error)
        if step in ("check", "time"):
            made = self._made[index]
            self._made[index] = Build(outcome.value, made.source, made.binary_key, made.runner)
            if step == "check" and self._wants_time(self._made[index]):
                task = self._task(index, "time", (self._works[index], self._made[index]), self.check_limit_s)
                if self.jobs == 1:
                    return [task]
                # Another worker would take its caches and cores: it waits until the others have ended.
                self._to_time.append(task)
                return []
            return self._finish(index, outcome.value)
        if step == "emit_row" and index in self._made:  # the row of a compiler that crashed, now with its source
            crashed = self._made[index].row
            return self._finish(index, outcome.value.row.but(error=crashed.error))
        self._made[index] = outcome.value
        if self.goal in ("checked", "timed", "compared") and outcome.value.runner and outcome.value.row.error is None:
            return [self._task(index, "check", (self._works[index], outcome.value), self.check_limit_s)]
        return self._finish(index, outcome.value.row)

    def _wants_time(self, made: Build) -> bool:
        """Asked for, or a comparison that has the silicon here; and never of a kernel that is wrong."""
        asked = self.goal == "timed" or (self.goal == "compared" and made.runner == "runtime")
        return asked and bool(made.row.correct)

    def _after_crash(self, index: int, step: str, error: PortakernError) -> list[SlotTask]:
        """A worker that died while compiling took the row's source along: emit again, in a worker that only emits."""
        row = self._made[index].row if index in self._made else self._works[index].row
        if (again := self._once_more(index, step, error)) is not None:
            return [again]
        error = explain(error, self._works[index], step)
        if step == "build":
            self._made[index] = Build(row.failed(error))
            return [self._task(index, "emit_row", (self._works[index],), self.build_limit_s)]
        if step == "emit_row" and row.error is not None:
            return self._finish(index, row)
        if step == "time" and (again := self._without_peers(index, error)) is not None:
            return [again]
        return self._finish(index, row.failed(error))

    def _once_more(self, index: int, step: str, error: PortakernError) -> SlotTask | None:
        """The task again where a compiler or simulator died by a signal for the first time; ``None`` elsewhere.

        Such tools crash now and then where the same call succeeds a moment later.  A kernel that runs on the machine itself
        crashes for reasons of its own, and who was killed has met a limit.
        """
        signal = error.signal if isinstance(error, WorkerFault) else ""
        native = step == "check" and self._made[index].runner == "runtime"
        if not signal or signal == "SIGKILL" or native or step not in ("build", "check") or (index, step) in self._died:
            return None
        self._died[index, step] = signal
        args = (self._works[index],) if step == "build" else (self._works[index], self._made[index])
        return self._task(index, step, args, self.build_limit_s if step == "build" else self.check_limit_s)

    def _without_peers(self, index: int, error: PortakernError) -> SlotTask | None:
        """Timing once more and without peers, one of which may have taken the process down; ``None`` if there were none."""
        if not self.timing.get("against") or index in self._alone:
            return None
        self._alone.add(index)
        task = self._task(index, "time", (self._works[index], self._made[index]), self.check_limit_s)
        reason = f"{error.message}; timed without peers since"
        kwargs = {**self.timing, "against": (), "lost": dict.fromkeys(self.timing["against"], reason)}
        return replace(task, job=replace(task.job, kwargs=kwargs))

    def _finish(self, index: int, row: Row) -> list[SlotTask]:
        died = [f"{_STEP_WORDS[step]} ended its process by {signal} at first" for (i, step), signal in self._died.items()
                if i == index]  # fmt: skip
        if died and row.method:
            row = row.but(method="; ".join([row.method, *died]))
        self._rows[index] = row = row.but(environment=environment())
        if self.sink is not None:
            self.sink(row)
        if self.progress is not None:
            self.progress(len(self._rows), len(self._works), row)
        return []

    def _texts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Sources and assemblies by hash, for the report."""
        sources: dict[str, str] = {}
        assemblies: dict[str, str] = {}
        for made in self._made.values():
            if made.source is not None:
                sources[made.source.digest] = made.source.text
            if made.binary_key and (binary := steps.cached_binary(made.binary_key)) and binary.assembly:
                assemblies[binary.digest] = binary.assembly
        return sources, assemblies


_STEP_WORDS = {"emit_row": "emitting", "build": "compiling", "check": "running", "time": "timing"}


def explain(error: PortakernError, work: Work, step: str) -> PortakernError:
    """A worker's fault in the row's words; errors that were raised on purpose stay as they are."""
    if not isinstance(error, WorkerFault):
        return error
    doing = f"{_STEP_WORDS[step]} {work.row.operator} for {work.target}"
    what = error.message.removeprefix(error.message.split(" ", 1)[0] + " ")  # without the name of our own function
    if error.kind == "crash":
        what = f"ended its process by {error.signal}" if error.signal else what
        # A wrong instruction or address has nothing to do with the memory limit that the hint may be about.
        hint = error.hint if error.signal in ("", "SIGKILL", "SIGABRT") else ""
        return PortakernError(error.kind, f"{doing} {what}", hint=hint)
    return PortakernError(error.kind, f"{doing} {what}", hint=error.hint)
