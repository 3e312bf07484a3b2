"""A piece on the way to machine code, in a worker."""

from __future__ import annotations

from portakern.backend import Language
from portakern.ir.program import Program
from portakern.registry import registry
from portakern.study import steps
from portakern.study.steps import Build
from portakern.study.work import Work
from portakern.timing.call_clock import HasClock


def build(work: Work, program: Program, estimate: bool = True) -> Build:
    """As far as machine code, from the cache where it is there, and an estimate where there is a model of the target.

    Args:
        work: of the model, its target and its row.
        program: kernels of it.
    """
    return steps.guarded(work.row, lambda: _built(work, program, estimate))


def times_by_core(language: Language) -> bool:
    """Whether what runs is timed by the native core, which times pieces of a program as well."""
    return not isinstance(language.runtime, HasClock)


def _built(work: Work, program: Program, estimate: bool) -> Build:
    target = registry().target(work.target)
    source, _ = steps.source_of(program, target, registry().language(target.language))
    schedules = source.schedule or tuple(k.schedule for k in program.kernels)
    row = work.row.but(evidence="emitted", method="emitted", device=target.device.title, source_hash=source.digest,
                       schedule="; ".join(map(str, schedules)))  # fmt: skip
    made = steps.compiled(Build(row, source), work)
    binary = steps.cached_binary(made.binary_key) if made.row.evidence == "compiled" else None
    timed = made.runner == "runtime" and times_by_core(registry().language(target.language))
    if binary is None or not estimate or timed:  # what can be timed is not estimated
        return made
    return steps.with_estimate(made, lambda estimator: steps.kept_estimate(
        estimator, source, binary, {}, (program.digest,), lambda: program))  # fmt: skip
