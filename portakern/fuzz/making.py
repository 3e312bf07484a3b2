"""In a worker: from a work to its binary, with the schedule drawn for it, and what was reached on the way."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from portakern.errors import PortakernError
from portakern.fuzz.reached import EMITTING, LOWERING, reaching
from portakern.fuzz.variants import Variation
from portakern.ir.core import format_function
from portakern.ir.program import parse_kernels
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.text import parse_function
from portakern.registry import registry
from portakern.study import steps
from portakern.study.steps import Made
from portakern.study.work import Work
from portakern.tuning.chosen import Chosen, ForNest
from portakern.tuning.limits import refused
from portakern.tuning.space import NestSpace, nest_space

TRIES = 20
"""Random schedules that the device cannot hold before the default is taken."""


@dataclass(frozen=True)
class Making:
    """What was made; ``work`` has the schedule that was used, ``reached`` the functions that ran."""

    made: Made
    work: Work
    reached: frozenset[str] = frozenset()


def make(work: Work, variation: Variation) -> Making:
    """Lowers, emits and compiles.  What goes wrong is the row's error."""
    reached: set[str] = set()
    platform = type(registry().language(work.target.partition(":")[0]).emitter).__module__.split(".")[:3]
    with reaching(reached, (LOWERING, EMITTING, ".".join(platform) + ".")):
        work, failed = _scheduled(work, variation)
        made = failed or steps.emit_row(work)
    if made.source is not None and variation.forms:
        made = steps.guarded(made.row, lambda: _forms(work, made))
    if made.source is not None and made.row.error is None:
        made = steps.compiled(made, work)
    return Making(made, work, frozenset(reached))


def _scheduled(work: Work, variation: Variation) -> tuple[Work, Made | None]:
    """``work`` with the schedules drawn or named for its target; else what went wrong on the way to them."""
    if texts := variation.chosen.get(work.target):
        return replace(work, chosen=_exactly([Schedule.parse(x) for x in texts])), None
    if variation.schedule is None:
        return work, None
    drawn: list[Schedule] = []
    failed = steps.guarded(work.row, lambda: _draw(work, random.Random(variation.schedule), drawn))
    return (work, failed) if failed.row.error else (replace(work, chosen=_exactly(drawn)), None)


def _exactly(schedules: Sequence[Schedule]) -> Chosen:
    return Chosen(tuple(ForNest("", s) for s in schedules), "drawn", exact=True)


def _draw(work: Work, rng: random.Random, drawn: list[Schedule]) -> Made:
    """Appends a random legal schedule per kernel to ``drawn``, in the order in which lowering asks."""
    from portakern.lower import lower

    target = registry().target(work.target)
    steps.refuse_dtypes(work.program, target)
    language = registry().language(target.language)
    declare = language.choices or (lambda nest, device: {})

    def pick(nest: Nest, listed: Sequence[Schedule]) -> Schedule:
        space = nest_space(nest, listed, declare(nest, target.device), target.device)
        points = (_point(space, rng) for _ in range(TRIES))
        drawn.append(next((s for s in points if not refused(nest, s, target.device)), listed[0]))
        return drawn[-1]

    lower(work.program, target, {}, dict(work.names), dict(work.facts), pick)
    return Made(work.row)


def _point(space: NestSpace, rng: random.Random) -> Schedule:
    """One of the backend's own schedules as often as any point of the space."""
    if rng.random() < 0.4:
        return rng.choice(space.listed)
    return space.schedule({name: rng.choice(values) for name, values in space.choices.items()})


# ---- the text form, emitting twice, pickling ------------------------------------------------------------------------


def _forms(work: Work, made: Made) -> Made:
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


def emit_digest(work: Work, variation: Variation) -> str:
    """Hash of the emitted source; empty where nothing is emitted."""
    work, failed = _scheduled(work, variation)
    made = failed or steps.emit_row(work)
    return made.source.digest if made.source is not None else ""
