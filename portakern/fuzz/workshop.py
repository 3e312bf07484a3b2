"""Programs over targets: workers that stay with their language, batch after batch."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from portakern.errors import CompileError, PortakernError
from portakern.fuzz.holding import Held
from portakern.fuzz.making import Making
from portakern.fuzz.outcome import FOUND, MODULE, OK, REFUSED, UNUSED, TargetOutcome, status_of
from portakern.fuzz.program import FuzzProgram
from portakern.fuzz.reached import LOWERING
from portakern.registry import registry
from portakern.study import steps
from portakern.study.slots import Slots, SlotTask, room
from portakern.study.work import Work
from portakern.tools.workers import Job, Outcome, WorkerFault

LIMIT_S = 120.0
"""Wall time of making one program, and of running it."""

PATIENCE_S = 30.0
"""Wall time of running a program where that is not on silicon: what takes longer there is no hang, but left out."""

CACHE_BYTES = 1 << 30
"""What the binaries of a run may take on disk before they are thrown away."""

SPEC = "spec:"
"""Stands where a target would for what goes wrong before any is looked at."""


Step = Literal["run", "compile", "emit"]
"""How far a program is taken."""


@dataclass
class _Row:
    """A program on one target, on its way."""

    program: FuzzProgram
    work: Work
    making: Making | None = None
    seconds: float = 0.0
    again: bool = False

    @property
    def strided(self) -> bool:
        """Whether inputs have gaps, which what executes kernels elsewhere than on silicon has no memory for."""
        return any(f.strides is not None for f in self.work.facts.values())

    @property
    def runner(self) -> str:
        return self.making.made.runner if self.making is not None else ""

    @property
    def native(self) -> bool:
        """Whether it runs on silicon."""
        return self.runner == "runtime"


Progress = Callable[[FuzzProgram, TargetOutcome], None]


class Workshop:
    """Tries programs on targets.  A context manager: workers and what they compiled go with it.

    Args:
        targets: ``language:device`` names or patterns.
        jobs: workers at once.
        limit_s: wall time of making a program, and of running it, on one target.
        folder: where operators and binaries lie meanwhile, emptied before and after; a temporary one where not given.
        until: what is done last with a program: ``run``, ``compile`` or ``emit``.
    """

    def __init__(self, targets: str, jobs: int = 2, limit_s: float = LIMIT_S, folder: Path | None = None,
                 until: Step = "run") -> None:  # fmt: skip
        self.targets = registry().match(targets)
        self.limit_s = limit_s
        self.until: Step = until
        self.folder = folder or Path(tempfile.mkdtemp(prefix="portakern-fuzz-"))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._slots = Slots(jobs)
        self._env = {"PORTAKERN_CACHE": str(self.folder / "cache")}

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self._slots.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, programs: Sequence[FuzzProgram], targets: Sequence[str] | None = None, progress: Progress | None = None,
            skip: Collection[tuple[str, str]] = ()) -> dict[str, list[TargetOutcome]]:  # fmt: skip
        """The outcomes of each program by its digest.

        ``targets`` are the names of those to try, all where not given; pairs of a digest and a target in ``skip`` are left
        out.  An operator that is refused before any target is
        looked at, or goes wrong there, has one outcome, whose target is ``spec:``.
        """
        self._found: dict[str, list[TargetOutcome]] = {p.digest: [] for p in programs}
        self._progress = progress
        wanted = [t for t in self.targets if targets is None or str(t) in targets]
        self._rows = [_Row(p, w) for p in programs for w in self._works(p, wanted) if (p.digest, w.target) not in skip]
        for _ in self._slots.run([self._make(i) for i in range(len(self._rows))], self._follow):
            pass
        self._bound_cache()
        return self._found

    # ---- tasks

    def _works(self, program: FuzzProgram, targets: Sequence[Any]) -> list[Work]:
        try:
            return program.works(program.operator(self.folder), targets)
        except PortakernError as error:
            status = FOUND if isinstance(error.__cause__, SyntaxError) else REFUSED  # the grammar writes Python
            self._tell(program, _refused(TargetOutcome(SPEC, status, error.kind, str(error))))
        except Exception as error:
            fault = steps.defect(error)
            self._tell(program, TargetOutcome(SPEC, FOUND, fault.kind, fault.message))
        return []

    def _tell(self, program: FuzzProgram, outcome: TargetOutcome) -> None:
        self._found[program.digest].append(outcome)
        if self._progress is not None:
            self._progress(program, outcome)

    def _make(self, index: int) -> SlotTask:
        row = self._rows[index]
        language = registry().language(row.work.target.partition(":")[0])
        env = {**steps.build_environment(language), **registry().environment_for(language.name)}
        emits = self.until == "emit"
        return self._task(index, "make", "portakern.fuzz.making:make", {} if emits else env,
                          row.work, row.program.variation, not emits, alone=emits)  # fmt: skip

    def _hold(self, index: int) -> SlotTask:
        row = self._rows[index]
        assert row.making is not None
        target = registry().target(row.work.target)
        env = {**steps.run_environment(target, row.making.made.runner), **registry().environment_for(target.language)}
        return self._task(index, "hold", "portakern.fuzz.holding:hold", env, row.making.work, row.making.made,
                          row.program.variation)  # fmt: skip

    def _emit_again(self, index: int) -> SlotTask:
        """In a process of its own, where sets have another order.  Emission needs no environment of any language."""
        making = self._rows[index].making
        assert making is not None
        return self._task(index, "emit", "portakern.fuzz.making:emit_digest", {"PYTHONHASHSEED": "1"}, making.work,
                          alone=True)  # fmt: skip

    def _task(self, index: int, step: str, function: str, env: dict[str, str], *args: Any, alone: bool = False) -> SlotTask:
        language = "emission" if alone else self._rows[index].work.target.partition(":")[0]
        slow = step == "hold" and not self._rows[index].native
        limit_s = min(self.limit_s, PATIENCE_S) if slow else self.limit_s
        by_one = step == "hold" and steps.held_by_one(registry().language(language), self._rows[index].runner)
        job = Job((index, step), function, args, timeout_s=limit_s)
        return SlotTask(room(language, {**env, **self._env}), job, by_one=by_one)

    def _follow(self, task: SlotTask, done: Outcome) -> list[SlotTask]:
        index, step = done.id  # type: ignore[misc]
        row = self._rows[index]
        row.seconds += done.seconds
        if done.error is not None:
            if step == "hold" and done.error.kind == "timeout" and not row.native:
                slow = TargetOutcome(row.work.target, UNUSED, "slow", "not done in time where it is interpreted")
                return self._finish(row, slow)
            if _died(done.error) and not row.again:  # tools crash now and then where the same call succeeds a moment later
                row.again = True
                return [task]
            return self._finish(row, _crashed(row, step, done.error))
        if step == "make":
            row.making = done.value
            return [self._emit_again(index)] if row.program.variation.forms else self._made(index)
        if step == "emit":
            assert row.making is not None
            made = row.making.made
            if made.source is not None and made.source.digest != done.value:
                return self._finish(row, _failed(row, "form", "another process emits another text"))
            return self._made(index)
        return self._finish(row, _held(row, done.value))

    def _made(self, index: int) -> list[SlotTask]:
        """What comes after a program is compiled: running it where it can be run."""
        row = self._rows[index]
        assert row.making is not None
        error = row.making.made.row.error
        if self.until != "run":
            return self._finish(row, _made(row))
        runs = bool(row.making.made.runner) and (row.native or not row.strided)
        return [self._hold(index)] if error is None and runs else self._finish(row, _made(row))

    def _finish(self, row: _Row, outcome: TargetOutcome) -> list[SlotTask]:
        making = row.making
        if making is not None:
            source = making.made.source
            schedule = tuple(map(str, source.schedule)) if source is not None else ()
            outcome = replace(outcome, reached=making.reached, families=families(making.reached), schedule=schedule)
        self._tell(row.program, replace(outcome, seconds=row.seconds))
        return []

    def _bound_cache(self) -> None:
        folder = self.folder / "cache"
        if folder.exists() and _size(folder) > CACHE_BYTES:
            shutil.rmtree(folder, ignore_errors=True)


_DOORS = ("lower_for", "lower_rows_or_parts")


def families(reached: frozenset[str]) -> tuple[str, ...]:
    """The families of loop nests whose lowering ran."""
    names = {x.partition(":")[2] for x in reached if x.startswith(LOWERING)}
    return tuple(sorted(n.removeprefix("lower_") for n in names if n.startswith("lower_") and n not in _DOORS))


def _died(error: PortakernError) -> bool:
    return isinstance(error, WorkerFault) and error.kind in ("crash", "timeout", "worker-start")


def _crashed(row: _Row, step: str, error: PortakernError) -> TargetOutcome:
    what = {"make": "compiling", "emit": "emitting"}.get(step, "running")
    signal = error.signal if isinstance(error, WorkerFault) else ""
    log = error.log if isinstance(error, CompileError | WorkerFault) else ""
    message = f"{what} {signal or error.message.partition(' ')[2] or error.message}"
    return TargetOutcome(row.work.target, FOUND, error.kind, message, log=log)


def _made(row: _Row) -> TargetOutcome:
    assert row.making is not None
    error = row.making.made.row.error
    if error is None:
        return TargetOutcome(row.work.target, OK)
    return _failed(row, error["kind"], error["message"])


def _held(row: _Row, held: Held) -> TargetOutcome:
    error = held.row.error
    if error is None:
        return TargetOutcome(row.work.target, OK)
    return replace(_failed(row, error["kind"], error["message"]), stage=held.stage, wrong=held.wrong)


def _failed(row: _Row, kind: str, message: str) -> TargetOutcome:
    v = row.program.variation
    drawn = v.schedule is not None or v.layout is not None or bool(v.chosen)
    return _refused(TargetOutcome(row.work.target, status_of(kind, message, drawn), kind, message))


def _refused(outcome: TargetOutcome) -> TargetOutcome:
    """``outcome``, a fault where it is a refusal that does not name the operator's line, or that nobody expects."""
    if outcome.status != REFUSED:
        return outcome
    if outcome.kind == "missing-rule" and outcome.target != SPEC and not registry().language(outcome.language).partial:
        return replace(outcome, status=FOUND, kind="gap")
    if f"{MODULE}_" in outcome.message:
        return outcome
    return replace(outcome, status=FOUND, kind="no-line", message=f"{outcome.kind}: {outcome.message}")


def _size(folder: Path) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for base, _, names in os.walk(folder):
            total += sum(os.stat(os.path.join(base, n)).st_size for n in names)
    return total
