"""How many planted bugs the check catches: ``python -m portakern.check.faults [OP ...] [--targets T,..]``.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from portakern.backend import Executable
from portakern.check.mutants import KINDS, Mutant, inject
from portakern.check.stages import Verdict, check_executable
from portakern.errors import PortakernError
from portakern.ir.program import Program
from portakern.ir.tensor import TensorProgram
from portakern.registry import registry
from portakern.spec.load import load_operator, operator_names
from portakern.spec.operator import Case, Operator


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant: ``result`` is caught, refused, no effect or missed; ``detail`` says by what."""

    operator: str
    target: str
    case: str
    dtype: str
    kind: str
    where: str
    result: str
    detail: str = ""


def cases_for(operator: Operator) -> list[Case]:
    """Small cases that together reach loops, ragged edges and the parameters."""
    wanted = ("ragged", "unaligned", "long", "column")
    found = [c for c in operator.cases if c.name in wanted]
    return found or list(operator.cases[:3])


# ---- in the worker ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _lowered(operator: str, case: str, dtype: str, target: str) -> tuple[TensorProgram, Program, Verdict]:
    """The tensor program, its kernels, and the verdict on the correct ones."""
    from portakern.lower import lower

    op = load_operator(operator)
    found = op.case(case)
    program = op.program(found.dims, found.params, dtype)
    kernels = lower(program, registry().target(target))
    verdict = check_executable(_executable(kernels, target), program, families=found.inputs)
    if not verdict.correct:
        raise PortakernError("incorrect", f"{operator}, {case}, {dtype} is wrong without a fault: {verdict.message}")
    return program, kernels, verdict


def _executable(program: Program, target: str) -> Executable:
    goal = registry().target(target)
    language = registry().language(goal.language)
    if missing := language.emitter.missing(program, goal):
        raise PortakernError("missing-rule", missing[0].what)
    source = language.emitter.emit(program, goal)
    binary = language.toolchain.compile(source) if language.toolchain else None
    runner = language.runtime if language.runtime and language.runtime.available(goal) else language.simulator
    if runner is None:
        raise PortakernError("not-runnable", f"nothing here runs {target}")
    return runner.load(source, binary)


def sites(operator: str, case: str, dtype: str, target: str, per_kind: int) -> list[tuple[int, str, str]]:
    """Number, kind and place of the mutants to try: at most ``per_kind`` of each, spread over its places."""
    by_kind: dict[str, list[tuple[int, str, str]]] = {}
    for number, m in enumerate(inject(_lowered(operator, case, dtype, target)[1])):
        by_kind.setdefault(m.kind, []).append((number, m.kind, m.where))
    chosen = []
    for found in by_kind.values():
        step = max(1, len(found) // per_kind)
        chosen += found[::step][:per_kind]
    return chosen


def judge(operator: str, case: str, dtype: str, target: str, number: int) -> tuple[str, str]:
    """Result and detail for the mutant of that number."""
    program, kernels, correct = _lowered(operator, case, dtype, target)
    mutant = _nth(inject(kernels), number)
    try:
        executable = _executable(mutant.program, target)
    except PortakernError as error:
        return "refused", f"{error.kind}: {error.message.splitlines()[0]}"
    try:
        families = load_operator(operator).case(case).inputs
        verdict = check_executable(executable, program, families=families)
    except PortakernError as error:
        return "caught", error.kind
    if not verdict.correct:
        return "caught", verdict.failures[0].stage
    same = verdict.fingerprint == correct.fingerprint and verdict.stages == correct.stages
    return ("no effect", "") if same else ("missed", f"error ratio {verdict.max_error_ratio:.3g}")


def _nth(mutants: Iterable[Mutant], number: int) -> Mutant:
    return next(m for i, m in enumerate(mutants) if i == number)


# ---- in the parent ---------------------------------------------------------------------------------------------------


def measure(
    operators: Sequence[str],
    targets: Sequence[str],
    dtypes: Sequence[str] = ("f32", "bf16"),
    per_kind: int = 2,
    progress: Any = None,
) -> list[Outcome]:
    """The outcome of every mutant of the ``operators`` on the ``targets``, which must run here."""
    from portakern.build.workers import WorkerPool

    outcomes: list[Outcome] = []
    for target in targets:
        language = registry().language(registry().target(target).language)
        environment = {**language.environment, **(getattr(language.simulator, "environment", None) or {})}
        with WorkerPool(1, env=environment) as pool:
            for name in operators:
                for case in cases_for(load_operator(name)):
                    for dtype in dtypes:
                        outcomes += _measure(pool, (name, case.name, dtype, target), per_kind)
                        if progress:
                            progress(name, case.name, dtype, target, outcomes)
    return outcomes


def _measure(pool: Any, which: tuple[str, str, str, str], per_kind: int) -> list[Outcome]:
    name, case, dtype, target = which
    outcomes = []
    try:
        chosen = pool.call("portakern.check.faults:sites", *which, per_kind, timeout_s=120)
    except PortakernError as error:  # without a correct kernel there is nothing to plant faults in
        return [Outcome(name, target, case, dtype, "", "", "unusable", error.message.splitlines()[0])]
    for number, kind, where in chosen:
        try:
            result, detail = pool.call("portakern.check.faults:judge", *which, number, timeout_s=60)
        except PortakernError as error:  # a crash or a hang of the kernel is seen too
            result, detail = "caught", error.kind
        outcomes.append(Outcome(name, target, case, dtype, kind, where, result, detail))
    return outcomes


def report(outcomes: Sequence[Outcome]) -> str:
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
    parser = argparse.ArgumentParser(prog="python -m portakern.check.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operators", nargs="*", help="operators; all of the library where none is named")
    parser.add_argument("--targets", default="numba:cpu", help="targets that run here, separated by commas")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--per-kind", type=int, default=2, help="mutants of each kind per program")
    asked = parser.parse_args(arguments)

    def progress(name: str, case: str, dtype: str, target: str, outcomes: Sequence[Outcome]) -> None:
        if sys.stderr.isatty():
            print(f"\r{name} {case} {dtype} {target}: {len(outcomes)} mutants", end="\033[K", file=sys.stderr)

    outcomes = measure(asked.operators or operator_names(), asked.targets.split(","), asked.dtypes.split(","),
                       asked.per_kind, progress)  # fmt: skip
    print(report(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
