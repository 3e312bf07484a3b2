"""From a tensor program to source: lowering with the schedule that is asked for, was tuned, or fits; or a stranger's text."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from portakern.backend import (
    Language,
    Source,
    Target,
)
from portakern.dtypes import DTYPES
from portakern.errors import (
    BackendError,
    MissingRuleError,
    PortakernError,
    ScheduleError,
    UnsupportedDtype,
    UsageError,
)
from portakern.ir.collecting import without_collections
from portakern.ir.program import Array, Program
from portakern.ir.schedule import LOWERED_OPTIONS, Nest, Schedule
from portakern.ir.tensor import TensorProgram, tensor_type
from portakern.referee.messages import printable
from portakern.registry import registry
from portakern.study.operations import operations
from portakern.study.steps.outcome import Build, guarded
from portakern.study.work import Work
from portakern.tools.deep import with_room


def lowered(work: Work, target: Target, avoided: Collection[str] = ()) -> Program:
    """The kernels of ``work`` under the schedule asked for, or that chosen for it, or the first that is not ``avoided``.

    Raises :class:`UnsupportedDtype` where the device cannot have a dtype, else what lowering raises.
    """
    from portakern.lower import laid_out, lower_for, with_layouts

    refuse_dtypes(work.program, target)
    language = registry().language(target.language)
    options = {**LOWERED_OPTIONS, **language.options}
    pick = work.chosen.picker(options, language.emitter_version) if work.chosen is not None else None
    if avoided:
        pick = functools.partial(_first_but, avoided)
    laid = laid_out(work.program, work.weights)
    if laid is None:
        return lower_for(work.program, target, language, dict(work.schedule), dict(work.names), dict(work.facts), pick)
    names = laid.names(dict(work.names))
    program = lower_for(laid.program, target, language, dict(work.schedule), names, dict(work.facts), pick)
    return with_layouts(program, lower_for(laid.layout, target, language, {}, names, dict(work.facts)), laid)


def _first_but(avoided: Collection[str], nest: Nest, space: Sequence[Schedule]) -> Schedule:
    """The first schedule that is not ``avoided``.  Raises :class:`NoSchedule` where products that go together have none left:
    lowering takes them apart then."""
    from portakern.lower.kernel import NoSchedule

    left = next((s for s in space if str(s) not in avoided), None)
    if left is None and nest.family in TOGETHER:
        raise NoSchedule(f"no schedule of a {nest.family} kernel has room on the device", "smaller dims that must be whole")
    return left or space[0]


TOGETHER = ("attention", "chain")
"""Families of products that lowering can take apart."""


def refuse_dtypes(program: TensorProgram, target: Target) -> None:
    """Raise :class:`UnsupportedDtype` when an input or output has a dtype that the device does not list.

    Integer inputs are left to the emitter, which may take indices of 64 bits in another form; so are results of 64 bits that
    are known to fit into 32, or of which the bits are all that is computed.
    """
    from portakern.lower.narrow import without_wide_integers
    from portakern.lower.small_integers import small
    from portakern.lower.word_pairs import has_words

    device = target.device
    inputs = [a for a in program.args if not DTYPES[tensor_type(a).dtype].is_int]
    for op in (*program.results, *inputs):
        dtype = tensor_type(op).dtype
        if dtype not in device.dtypes and dtype != "i64":
            instead = device.alternatives.get(dtype)
            hint = f"use {instead}" if instead else f"{device.name} has {', '.join(device.dtypes)}"
            raise UnsupportedDtype(f"{target} has no {dtype}, which {program.name} is asked in", hint=hint,
                                   where=str(op.loc or ""))
    if "i64" in device.dtypes or all(tensor_type(r).dtype != "i64" for r in program.results):
        return
    for name, op in zip(program.outputs, without_wide_integers(program).results, strict=True):
        if tensor_type(op).dtype == "i64" and small(op) is None and not has_words(op):
            raise UnsupportedDtype(
                f"{target} has no i64, and the numbers of {name} in {program.name} are not known to fit into 32 bits",
                hint="places, counts and what is limited (pk.clip, torch.clamp) are known to; or give back i32, or f32",
                where=str(op.loc or ""))  # fmt: skip


@dataclass(frozen=True)
class Emission:
    """What a work became: ``work`` has the schedule that was used, ``note`` says why a tuned one was not (empty: it was, or
    there is none).  ``preparation`` is what is done once for all calls, where the work names weights and something hangs on
    them alone: ``source`` and ``program`` take what it gives as further inputs then."""

    work: Work
    source: Source
    program: Program
    note: str = ""
    preparation: tuple[Source, Program] | None = None


def emission(work: Work) -> Emission:
    """The source of ``work`` under its tuned schedule, or under the default one where that no longer fits.

    Raises what stands in the way; needs no tool.
    """
    with without_collections():
        return with_room(len(work.program.body.ops), lambda: _with_its_schedule(work))


def _with_its_schedule(work: Work) -> Emission:
    try:
        return emission_for(work)
    except PortakernError as error:
        if work.chosen is None or work.chosen.exact:
            raise
        return emission_for(*without_tuned(work, error))


def emission_for(work: Work, note: str = "") -> Emission:
    if not work.weights or work.foreign is not None:
        return Emission(work, *emit(work), note)
    target = registry().target(work.target)
    language = registry().language(target.language)
    main, preparation = _first_that_fits(work, target, lambda program: _apart(program, work.weights, target, language))
    return Emission(work, *main, note, preparation)


Emitted = tuple[Source, Program]


def _apart(program: Program, weights: Collection[str], target: Target, language: Language) -> tuple[Emitted, Emitted | None]:
    """What is done at every call, and what once."""
    from portakern.lower import hoisted

    parts = hoisted(program, weights)
    if parts is None:
        return source_of(program, target, language), None
    return source_of(parts.main, target, language), source_of(parts.preparation, target, language)


def without_tuned(work: Work, error: PortakernError) -> tuple[Work, str]:
    """``work`` with the backend's default schedule, and why the tuned one is not used."""
    assert work.chosen is not None
    return replace(work, chosen=None), f"{work.chosen.origin} is not used: {error.message}"


def schedule_from(work: Work) -> str:
    """Whether the schedule is ``given``, ``tuned`` or the backend's ``default``."""
    return "given" if work.schedule else "tuned" if work.chosen is not None else "default"


def emitted(work: Work, target: Target, language: Language) -> tuple[Source, Program]:
    """The source for ``work``: emitted, or the foreign text with our arrays.

    Where a block of the device cannot hold what the backend's first schedule needs, the next one is taken.
    Raises :class:`MissingRuleError` with everything the emitter lacks, at once.
    """
    if work.foreign is not None:
        return adopted(work, target, language)
    return _first_that_fits(work, target, lambda program: source_of(program, target, language))


Made = TypeVar("Made")


def _first_that_fits(work: Work, target: Target, make: Callable[[Program], Made]) -> Made:
    """What ``make`` gives of the kernels under the first schedule for which a block of the device has room."""
    while True:
        try:
            return make(lowered(work, target, work.avoided))
        except ScheduleError as error:
            if (other := without(work, error)) is None:
                raise
            work = other


def without(work: Work, error: ScheduleError) -> Work | None:
    """``work`` with another of the backend's schedules for the kernel that has no room; None where it has no other, or the
    schedule was asked for."""
    if work.schedule or work.chosen is not None or not error.schedule or error.schedule in work.avoided:
        return None
    return replace(work, avoided=(*work.avoided, error.schedule))


def source_of(program: Program, target: Target, language: Language) -> tuple[Source, Program]:
    """The source of lowered kernels.  Raises :class:`MissingRuleError` with everything the emitter lacks, at once."""
    missing = language.emitter.missing(program, target)
    if missing:
        alternatives = dict.fromkeys(m.alternative for m in missing if m.alternative)
        raise MissingRuleError(
            f"{language.name} cannot emit {program.name} for {target.device.name}", hint="; ".join(alternatives),
            missing=tuple(f"{m.what} ({m.where})" if m.where else m.what for m in missing))  # fmt: skip
    return language.emitter.emit(program, target), program


_ENTRY = re.compile(r"[A-Za-z_]\w{0,199}")
"""The entry of a stranger's text; it becomes the name of a file, too."""


def adopted(work: Work, target: Target, language: Language) -> tuple[Source, Program]:
    """A foreign text as a source for the operator's arrays."""
    assert work.foreign is not None
    if language.adopt is None:
        raise BackendError(f"{language.name} takes no foreign kernels", kind="no-foreign-kernels")
    if work.foreign.entry is not None and not _ENTRY.fullmatch(work.foreign.entry):
        raise PortakernError("bad-source", f"{work.foreign.entry[:80]!r} is no name of a function")
    refuse_dtypes(work.program, target)
    try:
        program = lowered(replace(work, weights=()), target)  # a text takes them as they are
    except PortakernError:
        # The operator may be one that we cannot lower: a foreign kernel needs its arrays only.
        program = Program(work.program.name, arrays_of(work.program), ())
    return read_text(language, work.foreign.text, work.foreign.entry, program, target), program


TEXT_CHARACTERS = 1 << 20
"""A kernel's text has no more."""


def read_text(language: Language, text: str, entry: str | None, program: Program, target: Target) -> Source:
    """A stranger's text as a source.  Whatever goes wrong when it is read is wrong in the text: ``bad-source``."""
    assert language.adopt is not None
    if len(text) > TEXT_CHARACTERS:
        raise PortakernError("bad-source", f"the text has {len(text)} characters, where {TEXT_CHARACTERS} are the most")
    try:
        text.encode()
        return language.adopt(text, entry, program, target)
    except UsageError as error:
        raise PortakernError("bad-source", *map(printable, (error.message, error.hint, error.where))) from error
    except (RecursionError, MemoryError) as error:
        raise PortakernError("bad-source", "the text cannot be read: it is nested too deeply") from error
    except (ValueError, ArithmeticError) as error:
        told = f"{type(error).__name__}: {error}"[:400]
        raise PortakernError("bad-source", printable(f"the text cannot be read: {told}")) from error


def arrays_of(program: TensorProgram) -> tuple[Array, ...]:
    """Inputs, run-time scalars and outputs of an operator as the arrays of a program."""
    from portakern.lower.domain import array_types

    types = array_types(program, program.scalars, None)
    inputs = [Array(a.name, types[a.name], "scalar" if a.name in program.scalars else "input") for a in program.args]
    inputs.sort(key=lambda a: a.role == "scalar")
    return (*inputs, *(Array(o, types[o], "output") for o in program.outputs))


def emit(work: Work) -> tuple[Source, Program]:
    """The source and program of ``work``; raises what stands in the way.  Needs no tool."""
    target = registry().target(work.target)
    return emitted(work, target, registry().language(target.language))


def emit_row(work: Work) -> Build:
    """As far as source text, which every machine reaches."""
    return guarded(work.row, lambda: _emit_row(work))


def _emit_row(work: Work) -> Build:
    found = emission(work)
    work, source = found.work, found.source
    schedules = source.schedule or tuple(k.schedule for k in found.program.kernels if k.schedule is not None)
    row = work.row.but(device=source.target.device.title, evidence="emitted", source_hash=source.digest,
                       method="emitted" if work.foreign is None else "given as text",
                       schedule=None if work.foreign else "; ".join(map(str, schedules)) or None,
                       schedule_from=None if work.foreign else schedule_from(work),
                       schedule_note=found.note or (work.chosen.origin if work.chosen is not None else None))
    return Build(row, source, preparation=found.preparation[0] if found.preparation is not None else None,
                 operations=operations(found.program))  # fmt: skip
