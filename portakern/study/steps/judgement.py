"""Running what was built, and comparing it with the oracle."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from portakern.backend import (
    CompiledBinary,
    Executable,
    HostBuffer,
    RunsBlocks,
    RunsInPart,
    SaysMethod,
    ShowsParts,
    Source,
)
from portakern.errors import (
    PortakernError,
)
from portakern.referee import RemoteExecutable
from portakern.referee.process import Allowance
from portakern.registry import registry
from portakern.spec.bind import bind
from portakern.study import stranger
from portakern.study.row import Row
from portakern.study.steps.binary import cached_binary
from portakern.study.steps.environments import run_environment
from portakern.study.steps.outcome import Build, guarded
from portakern.study.steps.runners import runner_part, simulator_of
from portakern.study.stranger import kernel_process
from portakern.study.turns import between_processes
from portakern.study.work import Work
from portakern.tools.cache import Cache

if TYPE_CHECKING:
    from portakern.check.sampled import Sampled


def load(source: Source, key: str, runner: str, binary: CompiledBinary | None = None) -> Executable:
    """What ``runner`` names with the binary, or the one in the cache under ``key``."""
    part = runner_part(registry().language(source.target.language), source.target, runner)
    assert part is not None
    return part.load(source, binary if binary is not None else cached_binary(key))


def loaded(work: Work, made: Build, binary: CompiledBinary | None = None) -> Executable:
    """What was built, ready to run; with what is done once for all calls where there is such."""
    assert made.source is not None
    main = load(made.source, made.binary_key, made.runner, binary)
    part = runner_part(registry().language(made.source.target.language), made.source.target, made.runner)
    if work.foreign is not None and isinstance(part, RunsInPart):
        cast(ShowsParts, main).watch()
    if made.preparation is None:
        return main
    from portakern.launch.hoisted import HoistedExecutable, Part

    before = Part(made.preparation, load(made.preparation, made.preparation_key, made.runner))
    return HoistedExecutable(before, Part(made.source, main), [a.name for a in work.program.args])


@contextlib.contextmanager
def running(work: Work, made: Build) -> Iterator[tuple[Executable, str]]:
    """What was built, ready to run, and what keeps it in: a stranger's kernel runs in a process that holds nothing else."""
    assert made.source is not None
    if work.foreign is None:
        yield loaded(work, made), ""
        return
    environment = run_environment(made.source.target, made.runner)
    with kernel_process(work, "running", environment) as process:
        yield RemoteExecutable(process, made.source, cached_binary(made.binary_key), made.runner,
                               work.foreign.secret.other("memory")), f"; {process.method}"  # fmt: skip


def check(work: Work, made: Build, seed: int = 0, full: bool = True, turn: str = "") -> Row:
    """The row after running what was built and comparing it with the oracle: all of it, or unless ``full`` and where the
    oracle would take minutes, as :mod:`portakern.check.sampled` says; then ``method`` says so.

    ``turn`` names a device that is used while nobody times there, and whose memory is given back for those who will.
    """
    return guarded(made.row, lambda: Build(_checked(work, made, seed, full, turn))).row


def _checked(work: Work, made: Build, seed: int, full: bool, turn: str) -> Row:
    from portakern.check.bounds.free import free_rounding

    assert made.source is not None
    source, row = made.source, made.row
    language = registry().language(source.target.language)
    if made.runner == "runtime":
        assert language.runtime is not None
        reached, ran_by = "executed", f"run on {language.runtime.device_name(source.target)}"
        row = row.but(device=language.runtime.device_name(source.target))
    else:
        simulator = simulator_of(language, source.target, made.runner)
        assert simulator is not None
        reached, ran_by = simulator.evidence, simulator.method(source.target)
    with free_rounding(work.foreign is not None), running(work, made) as (executable, kept):
        taking_turns = InTurn(executable, turn) if turn else executable
        found = judged(taking_turns, work, seed, full, turn)
        verdict = found.verdict
        shown, decoy = ("", None)
        if verdict.correct and isinstance(executable, RemoteExecutable):
            shown, decoy = proved(executable, taking_turns, work, made)
        did = executable.method if isinstance(executable, SaysMethod) else ""
    ran_by += kept + found.method + (f": {did}" if did else "") + shown + _said_of_little(verdict.little)
    row = row.but(correct=verdict.correct, max_error_ratio=verdict.max_error_ratio, part=found.part)
    if not verdict.correct:
        method = f"{row.method}; {ran_by}: wrong"
        return row.but(method=method).failed(PortakernError("incorrect", verdict.message, hint=incorrect_hint(work, did)))
    if decoy is not None:
        return row.but(correct=False, method=f"{row.method}; {ran_by}: a decoy").failed(decoy)
    return row.but(evidence=reached, method=f"{row.method}; {ran_by}")


def _said_of_little(outputs: Sequence[str]) -> str:
    """That right says little of ``outputs``."""
    return f"; roundings may decide much of {', '.join(outputs)}" if outputs else ""


class InTurn:
    """An executable that runs while nobody times on its device."""

    def __init__(self, executable: Executable, turn: str) -> None:
        self._executable, self._turn, self.guards = executable, turn, executable.guards

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        with between_processes(self._turn):
            self._executable.run(buffers, sizes)

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        with between_processes(self._turn):
            return cast(ShowsParts, self._executable).run_part(part, buffers, sizes)

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        with between_processes(self._turn):
            return self._executable.call(inputs, sizes)


def proved(executable: RemoteExecutable, run_by: Executable, work: Work, made: Build) -> tuple[str, PortakernError | None]:
    """What was shown of who computes a stranger's outputs, and the error where that is not its kernels.  ``run_by`` runs the
    executable."""
    from portakern.check.proof import PROOF_S, prove

    assert made.source is not None and work.foreign is not None
    part = runner_part(registry().language(made.source.target.language), made.source.target, made.runner)
    if not isinstance(part, RunsInPart):
        return "", None
    process = executable.process
    had, process.allowance = process.allowance, Allowance(PROOF_S)
    try:
        return "; " + prove(run_by, part, work.program, work.sizes, families=work.declared,
                            secret=work.foreign.secret.other("proof"), ran=list(executable.ran.values())), None  # fmt: skip
    except PortakernError as error:
        if error.kind == "decoy":
            return "", error
        if error.kind in ("timeout", "memory"):
            return f"; whether its kernels do the work was not found out ({_NOT_FOUND_OUT[error.kind]})", None
        raise
    finally:
        process.allowance = had


_NOT_FOUND_OUT = {"timeout": "that takes too long", "memory": "that takes too much memory"}


def judged(executable: Executable, work: Work, seed: int, full: bool, turn: str = "") -> Sampled:
    """The verdict, and how it was reached where that was not by the full check."""
    from portakern.check import check_executable
    from portakern.check.hidden import check_hidden, check_quick
    from portakern.check.sampled import Sampled, affordable

    foreign, secret = work.foreign, work.foreign.secret.other("check") if work.foreign is not None else None
    seed = foreign.secret.number("check") if foreign is not None else seed
    if not full and not affordable(bind(work.program, work.sizes)):
        found = _judged_in_part(executable, work, seed, turn)
        if found is not None:
            return replace(found, method=f"; {found.method}")
    if foreign is None or secret is None:
        return Sampled(check_executable(executable, work.program, dict(work.sizes), families=work.families, seed=seed), "")
    if foreign.quick:
        verdict = check_quick(executable, work.program, work.sizes, families=work.declared, secret=secret)
        return Sampled(verdict, f"; quick check ({', '.join(verdict.stages)})")
    cache, pool = (Cache(), None) if foreign.again else (None, stranger.pool)
    verdict = check_hidden(executable, work.program, work.sizes, families=work.declared, secret=secret, cache=cache, pool=pool)
    count = len(verdict.left_out)
    left_out = f"; {count} of {count + len(verdict.stages)} stages left out for want of time" if count else ""
    return Sampled(verdict, left_out)


def _judged_in_part(executable: Executable, work: Work, seed: int, turn: str) -> Sampled | None:
    """Where the oracle would take minutes; ``None`` where no part can be held against it."""
    from portakern.check.blocks import check_blocks
    from portakern.check.sampled import check_sampled
    from portakern.study.reference import reference_for

    given: dict[str, Any] = {"families": work.families, "seed": seed}
    if isinstance(executable, RunsBlocks):
        found = check_blocks(executable, work.program, work.sizes, **given)
        if found is not None:
            return found
    reference = reference_for(work, registry().target(work.target), turn)
    return check_sampled(executable, work.program, work.sizes, **given, reference=reference)


def incorrect_hint(work: Work, did: str) -> str:
    """The next step: for a kernel from elsewhere, what its executable says of how it was run."""
    if work.foreign:
        return f"how it was run: {did}" if did else ""
    return f"look at the kernel: portakern emit {work.row.operator} --targets {work.target}"
