"""How many planted bugs the check catches: ``python -m portakern.study.faults [OP ...] [--targets T,..]``.

Every mutant of every operator is emitted, compiled, run and checked in a worker process.  A mutant is

*   *caught* where a stage fails or the run faults,
*   *refused* where the target does not build it,
*   *without effect* where its outputs have the very bits of the correct kernel in every stage: it may be no bug at all
    (a mask dropped where a later one does its work), or the inputs do not reach it,
*   *missed* else: it computes something else, and within its bounds.  These are listed.

The share is that of the caught among the caught and the missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portakern.backend import Executable
from portakern.check.mutants import KINDS, inject
from portakern.check.stages import Verdict, check_executable
from portakern.errors import PortakernError
from portakern.ir.program import Program
from portakern.ir.size import evaluate, product
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.registry import registry
from portakern.spec.inputs import Family
from portakern.spec.load import load_operator, operator_names
from portakern.study import steps


@dataclass(frozen=True)
class MutationSubject:
    """A program to plant faults in, on one target.  ``case`` says which size it is."""

    operator: str
    case: str
    dtype: str
    target: str
    program: TensorProgram
    families: Mapping[str, Family] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        """Of inputs and outputs; how long a check takes and whether it can show anything."""
        values = [*self.program.args, *self.program.results]
        return sum(evaluate(product(tensor_type(v).shape), self.sizes) for v in values)


@dataclass(frozen=True)
class MutantOutcome:
    """What became of one mutant: ``result`` is caught, missed, no effect or refused; ``detail`` says by what."""

    operator: str
    target: str
    case: str
    dtype: str
    kind: str
    where: str
    result: str
    detail: str = ""


WORTHWHILE = range(64, 400_000)
"""Programs with as many elements are measured; the others show little, or take long for each mutant."""


def subjects(operators: Sequence[str], targets: Sequence[str], dtypes: Sequence[str]) -> list[MutationSubject]:
    """Cases of library operators (or operators in files) that together reach loops, ragged edges and the parameters."""
    found = []
    for target in targets:
        for op in map(load_operator, operators):
            named = [c for c in op.cases if c.name in ("ragged", "unaligned", "long", "column")] or list(op.cases)
            for case in named:
                for dtype in dtypes:
                    program = op.program(case.dims, case.params, dtype)
                    found.append(MutationSubject(op.name, case.name, dtype, target, program, case.inputs))
    return found


# ---- in the worker ---------------------------------------------------------------------------------------------------

_LOWERED: dict[tuple[str, str], tuple[Program, Verdict]] = {}


def _lowered(subject: MutationSubject) -> tuple[Program, Verdict]:
    """The kernels, and the verdict on them as they are."""
    from portakern.lower import lower_for

    key = (subject.program.digest, subject.target)
    if key not in _LOWERED:
        _LOWERED.clear()
        goal = registry().target(subject.target)
        kernels = lower_for(subject.program, goal, registry().language(goal.language))
        verdict = check_executable(_executable(kernels, subject.target), subject.program, subject.sizes,
                                   families=subject.families)  # fmt: skip
        if not verdict.correct:
            raise PortakernError("incorrect", f"wrong without any fault: {verdict.message}")
        _LOWERED[key] = (kernels, verdict)
    return _LOWERED[key]


def _executable(program: Program, target: str) -> Executable:
    goal = registry().target(target)
    language = registry().language(goal.language)
    if missing := language.emitter.missing(program, goal):
        raise PortakernError("missing-rule", missing[0].what)
    source = language.emitter.emit(program, goal)
    binary = language.toolchain.compile(source) if language.toolchain else None
    runner, why = steps.runner_for(language, goal)
    part = steps.runner_part(language, goal, runner) if runner else None
    if part is None:
        raise PortakernError("not-runnable", f"nothing here runs {target}: {why}")
    return part.load(source, binary)


def sites(subject: MutationSubject, per_kind: int) -> list[tuple[int, str, str]]:
    """Number, kind and place of the mutants to try: at most ``per_kind`` of each, spread over its places."""
    by_kind: dict[str, list[tuple[int, str, str]]] = {}
    for number, m in enumerate(inject(_lowered(subject)[0])):
        by_kind.setdefault(m.kind, []).append((number, m.kind, m.where))
    chosen = []
    for found in by_kind.values():
        step = max(1, len(found) // per_kind)
        chosen += found[::step][:per_kind]
    return chosen


def judge(subject: MutationSubject, number: int) -> tuple[str, str]:
    """Result and detail for the mutant of that number."""
    kernels, correct = _lowered(subject)
    mutant = next(m for i, m in enumerate(inject(kernels)) if i == number)
    try:
        executable = _executable(mutant.program, subject.target)
    except PortakernError as error:
        return "refused", f"{error.kind}: {error.message.splitlines()[0]}"
    try:
        verdict = check_executable(executable, subject.program, subject.sizes, families=subject.families)
    except PortakernError as error:
        return "caught", error.kind
    if not verdict.correct:
        return "caught", verdict.failures[0].stage
    same = verdict.fingerprint == correct.fingerprint and verdict.stages == correct.stages
    return ("no effect", "") if same else ("missed", f"error ratio {verdict.max_error_ratio:.3g}")


# ---- in the parent ---------------------------------------------------------------------------------------------------

Progress = Callable[[int, int, MutationSubject], None]


def measure(asked: Sequence[MutationSubject], per_kind: int = 2, progress: Progress | None = None) -> list[MutantOutcome]:
    """The outcome of the mutants of every subject, whose targets must run here."""
    from portakern.tools.workers import WorkerPool

    outcomes: list[MutantOutcome] = []
    worthwhile = [s for s in asked if s.elements in WORTHWHILE]
    for target in dict.fromkeys(s.target for s in worthwhile):
        goal = registry().target(target)
        runner, _ = steps.runner_for(registry().language(goal.language), goal)
        with WorkerPool(1, env=steps.run_environment(goal, runner or "simulator")) as pool:
            for subject in (s for s in worthwhile if s.target == target):
                if progress:
                    progress(worthwhile.index(subject), len(worthwhile), subject)
                outcomes += _measure(pool, subject, per_kind)
    return outcomes


def _measure(pool: Any, subject: MutationSubject, per_kind: int) -> list[MutantOutcome]:
    def outcome(kind: str, where: str, result: str, detail: str) -> MutantOutcome:
        return MutantOutcome(subject.operator, subject.target, subject.case, subject.dtype, kind, where, result, detail)

    try:
        chosen = pool.call("portakern.study.faults:sites", subject, per_kind, timeout_s=300)
    except PortakernError as error:  # without a correct kernel there is nothing to plant faults in
        return [outcome("", "", "unusable", error.message.splitlines()[0])]
    found = []
    for number, kind, where in chosen:
        try:
            result, detail = pool.call("portakern.study.faults:judge", subject, number, timeout_s=120)
        except PortakernError as error:  # a crash or a hang of the kernel is seen too
            result, detail = "caught", error.kind
        found.append(outcome(kind, where, result, detail))
    return found


def report(outcomes: Sequence[MutantOutcome]) -> str:
    """Share caught per kind and in all, and the mutants that were missed."""
    lines = [f"{'fault':<28}{'caught':>8}{'missed':>8}{'no effect':>11}{'refused':>9}   share"]
    for kind in [*KINDS, "all"]:
        of = [o for o in outcomes if kind in (o.kind, "all") and o.result != "unusable"]
        caught, missed, silent, refused = (sum(o.result == r for o in of) for r in ("caught", "missed", "no effect", "refused"))
        share = f"{100 * caught / (caught + missed):.0f}%" if caught + missed else "-"
        if of:
            lines.append(f"{kind:<28}{caught:>8}{missed:>8}{silent:>11}{refused:>9}{share:>8}")
    for o in outcomes:
        if o.result == "unusable":
            lines.append(f"not measured: {o.operator} {o.case} {o.dtype} {o.target}: {o.detail}")
    missed = [o for o in outcomes if o.result == "missed"]
    lines += ["", "missed:"] if missed else []
    lines += [f"  {o.operator} {o.case} {o.dtype} {o.target}: {o.kind}, {o.where} ({o.detail})" for o in missed]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m portakern.study.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operators", nargs="*", help="operators; all of the library where none is named")
    parser.add_argument("--targets", default="numba:cpu", help="targets that run here, separated by commas")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--per-kind", type=int, default=2, help="mutants of each kind per program")
    asked = parser.parse_args(arguments)

    wanted = subjects(asked.operators or operator_names(), asked.targets.split(","), asked.dtypes.split(","))

    def progress(done: int, total: int, subject: MutationSubject) -> None:
        if sys.stderr.isatty():
            what = f"{done}/{total}  {subject.operator} {subject.case} {subject.dtype} {subject.target}"
            print(f"\r{what}", end="\033[K", file=sys.stderr)

    outcomes = measure(wanted, asked.per_kind, progress)
    print(report(outcomes))
    return 0


if __name__ == "__main__":
    # What workers exchange must belong to this module by its own name.
    from portakern.study import faults

    sys.exit(faults.main())
