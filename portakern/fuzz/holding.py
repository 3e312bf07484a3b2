"""In a worker: a built program against the oracle, through the stages that were drawn for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from portakern.check.adversarial import adversarial_inputs
from portakern.check.bounds import Val
from portakern.check.stages import REPEAT_WITHIN_S
from portakern.errors import PortakernError
from portakern.fuzz.layout import LaidOut, shared
from portakern.fuzz.variants import Variation
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.spec.inputs import make_inputs
from portakern.study import steps
from portakern.study.row import Row
from portakern.study.steps import Build
from portakern.study.work import Work
from portakern.tools.cache import Cache

ENOUGH_S = 2.0
"""After so many seconds of runs no further stage is begun: a tenth of the programs, interpreted, would take most of the time
that goes into hundreds of others, and languages that run natively go through every stage of them."""

KEPT = 1 << 16
"""Elements of a wrong output that is handed back, to be held against those of other targets."""


@dataclass(frozen=True)
class Held:
    """The row after the check; ``stage`` is the first one that failed, ``wrong`` the outputs of the failed stages."""

    row: Row
    stage: str = ""
    wrong: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)


class Holding(LaidOut):
    """A check that keeps what was wrong."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.wrong: dict[tuple[str, str], np.ndarray] = {}

    def compare(self, stage: str, name: str, dtype: str, wanted: Val, actual: np.ndarray) -> None:
        before = len(self.failures)
        super().compare(stage, name, dtype, wanted, actual)
        if len(self.failures) > before and actual.size <= KEPT:
            self.wrong[stage, name] = np.array(actual)


def hold(work: Work, made: Build, variation: Variation) -> Held:
    """Runs what was built.  What goes wrong is the row's error."""
    kept: list[Held] = []

    def step() -> Build:
        kept.append(_held(work, made, variation))
        return Build(kept[0].row)

    row = steps.guarded(made.row, step).row
    return kept[0] if kept else Held(row)


def _held(work: Work, made: Build, variation: Variation) -> Held:
    assert made.source is not None
    target = made.source.target
    executable = steps.load(made.source, made.binary_key, made.runner)
    check = Holding(executable, bind(work.program, work.sizes), dict(work.sizes), Cache())
    check.facts = work.facts
    program, families = check.program, dict(work.families)

    def inputs(kind: str) -> dict[str, np.ndarray]:
        made_up = adversarial_inputs(kind, program, families, 0) if kind else make_inputs(program, families, 0)
        return shared(program, made_up, work.facts) if variation.same else made_up

    spent = check.values("values", inputs(""))
    if spent <= REPEAT_WITHIN_S:
        check.repeat(inputs(""))
        spent *= 2
    for kind in variation.stages:
        if spent > ENOUGH_S:
            break
        spent += check.values(kind, inputs(kind))
    verdict = check.verdict()
    simulator = steps.simulator_of(registry().language(target.language), target, made.runner)
    evidence = "executed" if made.runner == "runtime" or simulator is None else simulator.evidence
    row = made.row.but(correct=verdict.correct, max_error_ratio=verdict.max_error_ratio)
    if verdict.correct:
        return Held(row.but(evidence=evidence))
    wrong = row.failed(PortakernError("incorrect", verdict.message))
    return Held(wrong, verdict.failures[0].stage, check.wrong)
