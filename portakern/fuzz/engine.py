"""The loop of ``portakern fuzz``: make a batch, try it on every target, make what fails smaller, steer the next batch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from portakern.errors import UsageError
from portakern.fuzz.batch import SHRINK_S, Batch
from portakern.fuzz.coverage import Coverage
from portakern.fuzz.files import programs_of, read
from portakern.fuzz.findings import Findings, FuzzFinding, cause_of, name_of, suspicion, write
from portakern.fuzz.outcome import FOUND, TargetOutcome
from portakern.fuzz.program import FuzzProgram
from portakern.fuzz.state import RunFolder
from portakern.fuzz.steering import Steering
from portakern.fuzz.workshop import SPEC, Workshop
from portakern.ir.tensor import TensorProgram
from portakern.registry import registry

FIRST_BATCH = 12
LARGEST_BATCH = 60

DRAWN = 1.1
"""Programs drawn for each that is wanted: some were tried before, and some come to nothing."""

BATCH_SHARE = 0.2
"""Of the time that is left, a batch may take; so a run ends not long after its time."""

MIXED = 1_000_003
"""Between the seeds of batches, so that runs of neighbouring seeds share none."""

_KINDS = {"run": ("checks what it emits", "without --emit or --compile"), "compile": ("compiles only", "with --compile"),
          "emit": ("emits only", "with --emit")}  # fmt: skip
"""What a run does, by its last step, and how it is resumed."""


@dataclass(frozen=True)
class FuzzSettings:
    """How to run: until ``programs`` were tried or ``seconds`` are over, whatever is given and comes first.

    ``judge``: random legal schedules and nothing else.  ``first``: end at the first finding.  ``shrink_s``: wall time of making
    a finding smaller; one that takes as long itself is not.  ``batch``: programs of a batch, as the time allows if not given.
    """

    seconds: float | None = None
    programs: int | None = None
    seed: int = 0
    judge: bool = False
    first: bool = False
    shrink_s: float = SHRINK_S
    batch: int | None = None


@dataclass
class Tally:
    """What a run has seen: outcomes by target and status, refusals by target and reason, one program for each."""

    programs: int = 0
    seconds: float = 0.0
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: dict[tuple[str, str, str], Counter[str]] = field(default_factory=dict)
    spent: Counter[str] = field(default_factory=Counter)

    def add(self, digest: str, outcome: TargetOutcome) -> None:
        self.statuses.setdefault(outcome.target, Counter())[outcome.status] += 1
        self.spent[outcome.target] += outcome.seconds  # type: ignore[assignment]
        if outcome.kind and outcome.status != FOUND:
            self.reasons.setdefault((outcome.target, outcome.status, outcome.signature), Counter())[digest] += 1


class Engine:
    """One run.  ``progress`` is called with (outcomes so far, outcomes of the batch, program, outcome)."""

    def __init__(self, workshop: Workshop, state: RunFolder, settings: FuzzSettings,
                 progress: Callable[[int, int, FuzzProgram, TargetOutcome], None] | None = None) -> None:  # fmt: skip
        from portakern.fuzz.grammar import FEATURES

        self.workshop, self.state, self.settings, self.progress = workshop, state, settings, progress
        self.coverage, self.findings, self.tally = Coverage(), Findings(), Tally()
        self.steering = Steering(tuple(FEATURES))
        self.batches: dict[int, Batch] = {}
        self.programs: dict[str, tuple[int, FuzzProgram]] = {}
        self.done: set[tuple[str, str]] = set()
        self._cases: set[str] = set()
        self._rate = 0.5  # programs a second, until one batch was timed
        self._restore()

    # ---- running

    def run(self) -> None:
        """Until the time is over or the programs are done; everything is kept on the way."""
        began = time.monotonic()
        self._finish_restored()
        while not self._over(began):
            number = max(self.batches, default=-1) + 1
            size = self._size(began)
            batch = Batch(self.settings.seed * MIXED + number, math.ceil(DRAWN * size), self._weights(), self.settings.judge)
            self._announce(number, batch)
            self._try(number, self._fresh(number, batch.programs(), size), began)

    def _over(self, began: float) -> bool:
        s = self.settings
        return ((s.first and bool(self.findings.mine)) or (s.programs is not None and self.tally.programs >= s.programs)
                or (s.seconds is not None and time.monotonic() - began >= s.seconds))  # fmt: skip

    def _size(self, began: float) -> int:
        if self.settings.batch is not None:
            return self.settings.batch
        if not self.tally.programs:
            return FIRST_BATCH
        if self.settings.seconds is None:
            return LARGEST_BATCH
        left = self.settings.seconds - (time.monotonic() - began)
        return max(FIRST_BATCH, min(LARGEST_BATCH, int(BATCH_SHARE * left * self._rate)))

    def _weights(self) -> dict[str, float]:
        weights = self.steering.next_batch()
        real = self.workshop.until == "compile"  # nothing is run, so no size takes long
        return {**weights, "real": float(real), **({} if self._native() else {"large": 0.0})}

    def _native(self) -> bool:
        """Whether every target is silicon: large programs are for these alone."""
        from portakern.study.steps import runner_for

        languages = [(registry().language(t.language), t) for t in self.workshop.targets]
        return all(runner_for(language, target)[0] == "runtime" for language, target in languages)

    def _fresh(self, number: int, made: Sequence[FuzzProgram], most: int) -> list[FuzzProgram]:
        """Those whose operator and sizes were not tried yet, ``most`` at most."""
        if self.settings.programs is not None:
            most = min(most, self.settings.programs - self.tally.programs)
        found: list[FuzzProgram] = []
        for program in made:
            case = _case(program)
            if case not in self._cases and len(found) < most:
                self._cases.add(case)
                found.append(program)
                self._admit(number, program)
        return found

    def _admit(self, number: int, program: FuzzProgram) -> None:
        self.programs[program.digest] = number, program
        features = sorted(program.case.features)
        self.steering.saw(features)
        self.coverage.features.update(features)
        self.state.append("programs", {"batch": number, "program": program.digest, "header": program.header(),
                                       "features": features, "text": program.case.text})  # fmt: skip

    def _announce(self, number: int, batch: Batch) -> None:
        self.batches[number] = batch
        self.state.append("batches", {"batch": number, "seed": batch.seed, "count": batch.count,
                                      "weights": dict(batch.weights), "schedules": batch.schedules,
                                      "until": self.workshop.until})  # fmt: skip

    def _try(self, number: int, programs: list[FuzzProgram], began: float) -> None:
        started, told = time.monotonic(), [0]
        total = len(programs) * len(self.workshop.targets)

        def tell(program: FuzzProgram, outcome: TargetOutcome) -> None:
            told[0] += 1
            self._take(program, outcome)
            if self.progress is not None:
                self.progress(told[0], total, program, outcome)

        found = self.workshop.run(programs, progress=tell, skip=self.done)
        self.tally.programs += len(programs)
        took = time.monotonic() - started
        self.tally.seconds += took
        self._rate = len(programs) / took if programs else self._rate
        for program in programs:
            for wrong in _by_kind(found[program.digest]):
                self._look_at(number, program, wrong)
                if self._over(began) and self.settings.first:
                    return

    def _take(self, program: FuzzProgram, outcome: TargetOutcome) -> None:
        """Everything that an outcome says, into the state and the tables."""
        news = self.coverage.news(outcome.reached)
        self._count(program, outcome)
        self.state.append("outcomes", {"program": program.digest, **outcome.to_dict(), "reached": news,
                                       "families": list(outcome.families)})  # fmt: skip

    def _count(self, program: FuzzProgram, outcome: TargetOutcome) -> None:
        self.done.add((program.digest, outcome.target))
        self.tally.add(program.digest, outcome)
        self.steering.credit(program.case.features, self.coverage.add(program.case.features, outcome))

    # ---- findings

    def _look_at(self, number: int, program: FuzzProgram, wrong: list[TargetOutcome]) -> None:
        """Counts what is known; what is not is written at once, made smaller, and written again."""
        known = {o.target: self.findings.recognised(o) for o in wrong}
        for name in {n for n in known.values() if n}:
            self._again(name, program)
        if not (wrong := [o for o in wrong if not known[o.target]]):
            return
        met = self._finding(program, wrong)
        if name := self.findings.same_cause(wrong[0], met.cause):  # no smaller than a known one, and of the same operations
            self._again(name, program)
            return
        self._write(program, wrong, met, small=False)
        small = self._smaller(number, program, wrong[0])
        outcomes = wrong
        if small.digest != program.digest:
            seen = self.workshop.run([small], [o.target for o in wrong])[small.digest]
            outcomes = [o for o in seen if o.status == FOUND and o.kind == wrong[0].kind]
        if not outcomes or not outcomes[0].like(wrong[0]):  # it comes and goes: told as it was met
            small, outcomes = program, wrong
        finding = self._finding(small, outcomes)
        finding = replace(finding, signatures=tuple(dict.fromkeys([*finding.signatures, *met.signatures])))
        (self.state.found / f"{met.name}.py").unlink(missing_ok=True)
        if name := self.findings.same_cause(wrong[0], finding.cause):
            self._again(name, program)
            return
        self._write(small, outcomes, finding, small=True)
        self.findings.add(finding)

    def _smaller(self, number: int, program: FuzzProgram, outcome: TargetOutcome) -> FuzzProgram:
        def still(candidate: FuzzProgram) -> bool:
            found = self.workshop.run([candidate], [outcome.target])[candidate.digest]
            return any(o.like(outcome) for o in found)

        if outcome.seconds >= self.settings.shrink_s:  # a hang, of which one try would take longer than all may
            return program
        return self.batches[number].shrink(program, still, self.state.database, self.settings.shrink_s)

    def _finding(self, program: FuzzProgram, outcomes: list[TargetOutcome]) -> FuzzFinding:
        traced = self._traced(program)
        cause = cause_of(outcomes[0], traced)
        return FuzzFinding(name_of(outcomes[0], cause), outcomes[0].kind, outcomes[0].message[:600],
                       tuple(o.target for o in outcomes), tuple(dict.fromkeys(o.signature for o in outcomes)), cause,
                       suspicion(outcomes, traced))  # fmt: skip

    def _traced(self, program: FuzzProgram) -> TensorProgram | None:
        with suppress(Exception):  # an operator that cannot be traced is itself the finding
            return program.works(program.operator(self.workshop.folder), self.workshop.targets[:1])[0].program
        return None

    def _write(self, program: FuzzProgram, outcomes: list[TargetOutcome], finding: FuzzFinding, small: bool) -> None:
        write(self.state.found, finding, program, outcomes)
        self.state.append("found", {"state": "small" if small else "met", "program": program.digest, **finding.to_dict()})

    def _again(self, name: str, program: FuzzProgram) -> None:
        self.findings.again(name)
        self.state.append("found", {"state": "again", "name": name, "program": program.digest})

    def know(self, folder: Path) -> None:
        """Takes over the findings of another run as known."""
        for line in RunFolder(folder, resume=True).lines("found"):
            if line["state"] == "small":
                self.findings.add(FuzzFinding.from_dict(line), known=True)

    # ---- going on

    def _restore(self) -> None:
        for line in self.state.lines("batches"):
            if (until := line.get("until", "run")) != self.workshop.until:
                what, how = _KINDS[until]
                raise UsageError(f"{self.state.folder} holds a run that {what}", hint=f"resume it {how}")
            self.batches[line["batch"]] = Batch(line["seed"], line["count"], line["weights"], line["schedules"])
        for line in self.state.lines("programs"):
            program = read(line["text"], line["header"], line["features"])
            self.programs[line["program"]] = line["batch"], program
            self._cases.add(_case(program))
            self.steering.saw(line["features"])
            self.coverage.features.update(line["features"])
        for line in self.state.lines("outcomes"):
            if line["program"] in self.programs:
                self._count(self.programs[line["program"]][1], _outcome(line))
        for line in self.state.lines("found"):
            if line["state"] == "small":
                self.findings.add(FuzzFinding.from_dict(line))
            elif line["state"] == "again":
                self.findings.again(line["name"])

    def _finish_restored(self) -> None:
        """What a kill interrupted: outcomes that are missing, then findings that were met and not looked at."""
        targets = {str(t) for t in self.workshop.targets}
        looked = {line["program"] for line in self.state.lines("found") if line["state"] != "met"}
        wrong = {line["program"] for line in self.state.lines("outcomes") if line["status"] == FOUND}
        waiting: dict[int, list[FuzzProgram]] = {}
        for digest, (number, program) in self.programs.items():
            tried = {t for d, t in self.done if d == digest}
            if not (targets <= tried or SPEC in tried):
                waiting.setdefault(number, []).append(program)
            else:
                self.tally.programs += 1
        for number, programs in waiting.items():
            self._try(number, programs, time.monotonic())
        for digest in sorted(wrong - looked):
            if digest in self.programs:
                number, program = self.programs[digest]
                seen = self.workshop.run([program])[digest]
                for again in _by_kind(seen):
                    self._look_at(number, program, again)


def _by_kind(outcomes: Iterable[TargetOutcome]) -> list[list[TargetOutcome]]:
    """The faults among them, those of one kind together."""
    found: dict[str, list[TargetOutcome]] = {}
    for outcome in outcomes:
        if outcome.status == FOUND:
            found.setdefault(outcome.kind, []).append(outcome)
    return list(found.values())


def _case(program: FuzzProgram) -> str:
    """Equal for programs that differ in their variations alone."""
    return f"{program.case.text}\n{sorted(program.case.dims.items())} {program.case.dtype}"


def _outcome(line: Mapping[str, Any]) -> TargetOutcome:
    return TargetOutcome(line["target"], line["status"], line.get("kind", ""), line.get("message", ""), line.get("stage", ""),
                   tuple(line["families"]), (), line.get("seconds", 0.0), frozenset(line["reached"]))  # fmt: skip


TOGETHER = 16
"""Files that are tried at once, so that what is known of others is told meanwhile."""


def again(workshop: Workshop, files: Iterable[Path]) -> Iterator[tuple[Path, list[tuple[FuzzProgram, list[TargetOutcome]]]]]:
    """The cases of files as findings and the corpus are, tried once more, in their order."""
    programs = [(file, programs_of(file)) for file in files]
    for at in range(0, len(programs), TOGETHER):
        some = programs[at : at + TOGETHER]
        found = workshop.run([p for _, each in some for p in each])
        yield from ((file, [(p, found[p.digest]) for p in each]) for file, each in some)
