"""The way of each row through its steps: what is done first, and what follows from what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from portakern.backend import Language
from portakern.errors import PortakernError
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study import steps
from portakern.study.peers_apart import time_for
from portakern.study.provenance import environment
from portakern.study.row import Row
from portakern.study.slots import Room, SlotTask, room
from portakern.study.steps import Build
from portakern.study.work import Work
from portakern.timing.inputs import bytes_of
from portakern.tools.workers import LATE, Job, Outcome, WorkerFault

GOALS = ("emitted", "compiled", "checked", "timed", "compared")
"""What may be asked of a row.  ``compared`` asks for as much as this machine can do and no more."""

BUILD_LIMIT_S = 300.0
CHECK_LIMIT_S = 300.0


@dataclass
class RowsUnderWay:
    """Works by number, and how far each is.  :meth:`begin` gives a work's first task, :meth:`follow` what comes after one.

    Args:
        goal: one of :data:`GOALS`.
        build_limit_s, check_limit_s: wall time for compiling and for running and checking one row.
        timing: what :func:`portakern.study.timing.time` is given.
        full_check: whether sizes for which the oracle would take minutes are checked in full all the same.
        finished: called with the number of each row that is finished, and the row.
        alone: takes a task that must not run beside others, such as timing; ``None`` where nothing runs beside it.
        shared: the environment of the one room in which languages are timed that may share a process; ``None`` where each
            has its own.
    """

    goal: str
    build_limit_s: float = BUILD_LIMIT_S
    check_limit_s: float = CHECK_LIMIT_S
    timing: Mapping[str, Any] = field(default_factory=dict)
    full_check: bool = True
    finished: Callable[[int, Row], None] = lambda number, row: None
    alone: Callable[[SlotTask], None] | None = None
    shared: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        assert self.goal in GOALS
        self._works: dict[int, Work] = {}
        self._made: dict[int, Build] = {}
        self._without: set[int] = set()  # what is timed without peers by now
        self._died: dict[tuple[int, str], str] = {}

    def begin(self, index: int, work: Work) -> SlotTask:
        """The first task of ``work``, which has the number ``index`` from now on."""
        self._works[index] = work
        return self._task(index, "emit_row" if self.goal == "emitted" else "build", (work,), self.build_limit_s)

    @property
    def made(self) -> Mapping[int, Build]:
        """What was built, by number."""
        return self._made

    def forget(self, index: int) -> None:
        """Lets go of a finished row's work and of what was built for it."""
        del self._works[index]
        self._made.pop(index, None)

    def _task(self, index: int, step: str, args: tuple[Any, ...], limit_s: float) -> SlotTask:
        target = registry().target(self._works[index].target)
        language = registry().language(target.language)
        if step in ("check", "time"):
            env = steps.run_environment(target, self._made[index].runner)
        else:
            env = steps.build_environment(language)
        function = f"portakern.study.steps:{step}"
        kwargs: dict[str, Any] = {}
        if step == "build":
            kwargs = {"estimate": self.goal == "compared", "peers": self.goal == "compared"}
            if self.goal == "timed" and self._works[index].foreign is None:
                function, kwargs["against"] = "portakern.study.timing:build", self.timing.get("against", ())
        elif step == "check":
            kwargs = {"full": self.full_check}
        elif step == "time":
            function, kwargs = "portakern.study.timing:time", dict(self.timing)
            limit_s += time_for(self.timing) if self._works[index].foreign is not None else 0.0
        needs = needs_of(self._works[index]) if step == "check" else 0
        by_one = step in ("check", "time") and steps.held_by_one(language, self._made[index].runner)
        job = Job((index, step), function, args, kwargs, limit_s)
        return SlotTask(self._room(language, env, step), job, needs=needs, by_one=by_one)

    def _room(self, language: Language, env: Mapping[str, str], step: str) -> Room:
        """Where a step is done: all of a row's where rows are timed, the timing alone where they are compared."""
        shared = self.shared if language.shares_process and (self.goal == "timed" or step == "time") else None
        if shared is not None and env.items() <= shared.items():
            return room("shared", shared)
        return room(language.name, {**env, **self._backends_of(language)})

    def _backends_of(self, language: Language) -> Mapping[str, str]:
        """So that a process loads no others; a peer of the user's may want any."""
        users = any(".py:" in name for name in self.timing.get("against", ()))
        return {} if users else registry().environment_for(language.name)

    def follow(self, task: SlotTask, outcome: Outcome) -> list[SlotTask]:
        """The tasks that come of the outcome of ``task``; none where its row is finished."""
        index, step = outcome.id  # type: ignore[misc]
        if outcome.error is not None:
            return self._after_crash(index, step, outcome.error)
        if step in ("check", "time"):
            made = self._made[index]
            self._made[index] = replace(made, row=outcome.value)
            if step == "check" and self._wants_time(self._made[index]):
                task = self._task(index, "time", (self._works[index], self._made[index]), self.check_limit_s)
                if self.alone is None:
                    return [task]
                self.alone(task)
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
        if error.kind == "timeout" and not error.hint:
            simulated = step == "check" and self._made[index].runner != "runtime"
            error = PortakernError(error.kind, error.message, hint=_SIMULATED_TOO_LONG if simulated else LATE)
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
        if not self.timing.get("against") or index in self._without:
            return None
        self._without.add(index)
        task = self._task(index, "time", (self._works[index], self._made[index]), self.check_limit_s)
        reason = f"{error.message}; timed without peers since"
        kwargs = {**self.timing, "against": (), "lost": dict.fromkeys(self.timing["against"], reason)}
        return replace(task, job=replace(task.job, kwargs=kwargs))

    def _finish(self, index: int, row: Row) -> list[SlotTask]:
        died = [f"{_STEP_WORDS[step]} ended its process by {signal} at first" for (i, step), signal in self._died.items()
                if i == index]  # fmt: skip
        if died and row.method:
            row = row.but(method="; ".join([row.method, *died]))
        self.finished(index, row.but(environment=environment()))
        return []


_SIMULATED_TOO_LONG = ("a simulator takes seconds for what a device does in microseconds: take smaller sizes, or `portakern "
                       "compare`, which checks some blocks of kernels of one launch")  # fmt: skip

SMALL = 1 << 30
"""Bytes that any process may take without asking."""


def needs_of(work: Work) -> int:
    """Bytes of this machine's memory that a check takes: the inputs, and theirs and the outputs' places between guard bands,
    the outputs of two runs and those that they are compared with; 0 where that is little."""
    program = bind(work.program, work.sizes)
    inputs, outputs = (sum(map(bytes_of, values)) for values in (program.args, program.results))
    needs = 3 * inputs + 4 * outputs
    return needs if needs > SMALL else 0


_STEP_WORDS = {"emit_row": "emitting", "build": "compiling", "check": "running", "time": "timing"}


def explain(error: PortakernError, work: Work, step: str) -> PortakernError:
    """A worker's fault in the row's words; errors that were raised on purpose stay as they are."""
    if not isinstance(error, WorkerFault):
        return error
    doing = f"{_STEP_WORDS[step]} {work.row.operator} for {work.target}"
    what = error.what
    if error.kind == "crash":
        what = f"ended its process by {error.signal}" if error.signal else what
        # A wrong instruction or address has nothing to do with the memory limit that the hint may be about.
        hint = error.hint if error.signal in ("", "SIGKILL", "SIGABRT") else ""
        return PortakernError(error.kind, f"{doing} {what}", hint=hint)
    return PortakernError(error.kind, f"{doing} {what}", hint=error.hint)
