"""In a worker: from a work to its binary, with the schedule drawn for it, and what was reached on the way."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from portakern.errors import PortakernError
from portakern.fuzz.outcome import MISFITS
from portakern.fuzz.reached import EMITTING, LOWERING, reaching
from portakern.fuzz.schedules import drawn_schedule
from portakern.fuzz.variants import SEEDS, Variation
from portakern.ir.core import format_function
from portakern.ir.program import parse_kernels
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.text import parse_function
from portakern.registry import registry
from portakern.study import steps
from portakern.study.steps import Build
from portakern.study.work import Work
from portakern.tuned.chosen import Chosen, ForNest

TRIES = 4
"""Draws of schedules for a program until one fits; the last one is the default."""


@dataclass(frozen=True)
class Making:
    """What was made; ``work`` has the schedule that was used, ``reached`` the functions that ran."""

    made: Build
    work: Work
    reached: frozenset[str] = frozenset()


def make(work: Work, variation: Variation, compiles: bool = True) -> Making:
    """Lowers, emits and, if it ``compiles``, compiles.  What goes wrong is the row's error."""
    reached: set[str] = set()
    platform = type(registry().language(work.target.partition(":")[0]).emitter).__module__.split(".")[:3]
    with reaching(reached, (LOWERING, EMITTING, ".".join(platform) + ".")):
        work, made = scheduled(work, variation)
    if made.source is not None and variation.forms:
        made = steps.guarded(made.row, lambda: _forms(work, made))
    if compiles and made.source is not None and made.row.error is None:
        made = steps.compiled(made, work)
    return Making(made, work, frozenset(reached))


def scheduled(work: Work, variation: Variation) -> tuple[Work, Build]:
    """``work`` with the schedules drawn or named for its target, and its source; what goes wrong is the row's error."""
    if texts := variation.chosen.get(work.target):
        work = replace(work, chosen=_exactly([Schedule.parse(x) for x in texts]))
    elif variation.schedule is not None:
        for attempt in range(TRIES - 1):
            found, made = _with_drawn(work, random.Random(variation.schedule + attempt * SEEDS))
            if made.row.error is None or made.row.error["kind"] not in MISFITS:
                return found, made
    return work, steps.emit_row(work)


def _with_drawn(work: Work, rng: random.Random) -> tuple[Work, Build]:
    drawn: list[Schedule] = []
    made = steps.guarded(work.row, lambda: _draw(work, rng, drawn))
    if made.row.error is not None:
        return work, made
    found = replace(work, chosen=_exactly(drawn))
    return found, steps.emit_row(found)


def _exactly(schedules: Sequence[Schedule]) -> Chosen:
    return Chosen(tuple(ForNest("", s) for s in schedules), "drawn", exact=True)


def _draw(work: Work, rng: random.Random, drawn: list[Schedule]) -> Build:
    """Appends a random legal schedule per kernel to ``drawn``, in the order in which lowering asks."""
    from portakern.lower import lower_for

    target = registry().target(work.target)
    steps.refuse_dtypes(work.program, target)
    language = registry().language(target.language)
    declare = language.choices or (lambda nest, device: {})

    def pick(nest: Nest, listed: Sequence[Schedule]) -> Schedule:
        drawn.append(drawn_schedule(nest, listed, declare(nest, target.device), target.device, rng))
        return drawn[-1]

    lower_for(work.program, target, language, {}, dict(work.names), dict(work.facts), pick)
    return Build(work.row)


# ---- the text form, emitting twice, pickling ------------------------------------------------------------------------


def _forms(work: Work, made: Build) -> Build:
    """``made`` where the program survives its forms.  Raises :class:`PortakernError` of kind ``form`` where it does not."""
    assert made.source is not None
    text = format_function(work.program)
    again = parse_function(text)
    if again.digest != work.program.digest or format_function(again) != text:
        raise PortakernError("form", "the text of the tensor program reads back as another program")
    source, program = steps.emit(work)
    if source.text != made.source.text:
        raise PortakernError("form", "emitting twice gives two texts")
    if tuple(k.digest for k in parse_kernels(str(program))) != tuple(k.digest for k in program.kernels):
        raise PortakernError("form", "the text of the kernels reads back as other kernels")
    if pickle.loads(pickle.dumps(program)).digest != program.digest:
        raise PortakernError("form", "the program pickles into another one")
    return made


def emit_digest(work: Work) -> str:
    """Hash of the emitted source; empty where nothing is emitted."""
    made = steps.emit_row(work)
    return made.source.digest if made.source is not None else ""
