"""Lowering for a target: schedules are those its language lists, changed by what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from portakern.backend import Language, Target
from portakern.device import Device
from portakern.errors import ScheduleError
from portakern.ir.program import ArrayFacts, Program
from portakern.ir.schedule import LOWERED_FAMILIES, LOWERED_OPTIONS, Nest, Schedule, Value, override
from portakern.ir.tensor import TensorProgram
from portakern.ir.tile import BufferType
from portakern.lower.kernel import NoSchedule
from portakern.lower.lowering import lower
from portakern.lower.narrow import without_wide_integers
from portakern.lower.parts import OPTION as PARTS


def lower_for(program: TensorProgram, target: Target, language: Language, overrides: Mapping[str, Value] | None = None,
              names: Mapping[str, tuple[str, ...]] | None = None, facts: Mapping[str, ArrayFacts] | None = None,
              pick: Callable[[Nest, Sequence[Schedule]], Schedule] | None = None) -> Program:
    """Kernels for ``program`` with the schedules that ``language`` lists for ``target``'s device, changed by ``overrides``.

    ``pick`` takes one of the schedules listed for a nest, or another, in place of the first.  Raises what
    :func:`portakern.lower.lower` does, and :class:`ScheduleError` for an override that fits no kernel.
    """
    asked = dict(overrides or {})
    used: set[str] = set()

    def choose(nest: Nest) -> Schedule:
        space = _space(language, nest, target)
        mine = {k: v for k, v in asked.items() if _applies(k, nest, language.options)}
        used.update(mine)
        made = override(pick(nest, space) if pick else space[0], nest, mine, {**LOWERED_OPTIONS, **language.options})
        return made if PARTS in mine else _with_room_for_parts(made, nest)

    if "i64" not in target.device.dtypes:
        program = without_wide_integers(program)
    lowered = lower(program, choose, names, facts if language.strided else None, language.takes_pixels,
                    language.picks_elements, language.sorts, language.shares_arrays, language.least_step, language.long_steps,
                    language.pairs is not None, language.halves_of_heads, lambda dtype: language.units(target.device, dtype),
                    language.takes_planes, lambda dtype, summed: language.multiplies(target.device, dtype, summed),
                    language.joins, lambda nest: default_schedule(language, nest, target), language.holds_parts,
                    picks_columns=target.device.kind == "gpu")
    if not language.strided:
        lowered = _as_given(lowered, facts or {})
    unknown = [k for k in asked if k not in used]
    if unknown:
        raise ScheduleError(f"no kernel of {program.name} has {', '.join(map(repr, unknown))} in its schedule",
                            hint="its schedules are: " + "; ".join(str(k.schedule) for k in lowered.kernels))
    return lowered


def _as_given(program: Program, facts: Mapping[str, ArrayFacts]) -> Program:
    """``program``, lowered for row-major arrays, with what is known of those that it is given."""
    return replace(program, arrays=tuple(
        replace(a, type=replace(a.type, strides=facts[a.name].strides, align=facts[a.name].align))
        if a.name in facts and isinstance(a.type, BufferType) else a for a in program.arrays))


def default_schedule(language: Language, nest: Nest, target: Target) -> Schedule:
    """What ``language`` lists first for ``nest``; raises :class:`NoSchedule` where it lists none."""
    return _space(language, nest, target)[0]


def _space(language: Language, nest: Nest, target: Target) -> Sequence[Schedule]:
    """The schedules of ``nest``; raises :class:`NoSchedule` where there are none."""
    try:
        if nest.products > 1:
            space = paired(language, nest, target.device)
        else:
            space = language.schedules(nest, target.device)
        space = [s for s in space if s.covers(nest.role("held"))]
        if space:
            return space
    except ScheduleError as error:
        raise NoSchedule(error.message, error.hint) from error
    raise NoSchedule(f"{target} has no schedule for a {nest.family} kernel over "
                     f"{', '.join(f'{a.name}={a.extent}' for a in nest.axes)}")


def paired(language: Language, nest: Nest, device: Device) -> list[Schedule]:
    """Schedules of products with a common operand: those of one with the columns of all, of which a block has as many from
    each.  Its tiles take the same room, and it does the same work."""
    (n,) = nest.role("n")
    if language.pairs is None or not language.pairs(nest, device):
        return []
    one = replace(nest, axes=tuple(replace(a, extent=a.extent * nest.products) if a is n else a for a in nest.axes))
    whole = (s for s in language.schedules(one, device) if nest.shares(s.tile(n.name)))
    return [replace(s, tiles=tuple((a, size // nest.products if a == n.name else size) for a, size in s.tiles)) for s in whole]


def _with_room_for_parts(schedule: Schedule, nest: Nest) -> Schedule:
    """``schedule`` whole where tiles that were asked for leave fewer of them than it has parts by default."""
    walked = nest.divided(dict(schedule.tiles))
    parts = schedule.option(PARTS, 0)
    if not parts or walked is None or not isinstance(parts, int) or not isinstance(extent := walked.extent, int):
        return schedule
    if -(-extent // schedule.tile(walked.name)) >= parts:
        return schedule
    return replace(schedule, options=tuple((k, v) for k, v in schedule.options if k != PARTS))


def _applies(name: str, nest: Nest, options: Mapping[str, str]) -> bool:
    if name in LOWERED_OPTIONS:
        return nest.family in LOWERED_FAMILIES[name]
    return name in ("stages", "warps") or name in options or any(name in (a.name, a.role) for a in nest.axes)
