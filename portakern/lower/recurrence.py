"""The recurrence family: steps that one kernel walks, which carries every lane from step to step.

Lanes that never meet are cut up as elementwise work is.  Of those that meet along some axes (:mod:`portakern.lower.held`) a
block has all along these.  Along the steps tiles are of one element, so that blocks exchange nothing, and nothing is stored
between two steps but what a step shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.schedule import LOWERED_OPTIONS, Nest
from portakern.lower.domain import Domain
from portakern.lower.elementwise import elementwise_domain
from portakern.lower.held import held_domain, held_nest, held_runs
from portakern.lower.kernel import Frame, Request, along, at_most, covered, grid
from portakern.lower.loops import Loop
from portakern.lower.rows import operand_coords, reduce_tile


def lower_recurrence(request: Request, loop: Loop, line: str) -> t.Kernel:
    """The kernel of a walked loop, in which the steps run along the axis ``line``."""
    program, count = request.program, len(loop.before)
    folds = [op for op in program.body.ops if isinstance(op, tt.Fold)]
    domain, nest = _held(request, count) if held_runs(program, request.classes, count) else _lanes(request)
    schedule = request.choose(replace(nest, steps=loop.length))
    held, parallel = domain.role("held"), [r for r in domain.runs if r.role != "held"]
    if cut := [r.name for r in held if not covered(r, schedule)]:
        raise ScheduleError(f"the schedule {schedule} cuts up {', '.join(cut)}, along which a step reduces",
                            hint="its tiles cover these axes: they are carried from step to step as a whole")  # fmt: skip
    if asked := [k for k, _ in schedule.options if k in LOWERED_OPTIONS]:
        raise ScheduleError(f"the schedule {schedule} has {', '.join(asked)}: steps that follow each other have no parts")
    at_most(schedule, parallel, 2 - sum(schedule.tile(r.name) > 1 for r in held), "axes")
    schedule = replace(schedule, tiles=(*schedule.tiles, (line, 1)))
    axes = [*grid(parallel, schedule), *(along(r, schedule) for r in held), t.Axis(line, "loop", loop.length, 1)]
    frame = Frame(request, domain, axes, schedule, "recurrence")
    b, w = frame.b, frame.w

    def tile(op: Op, number: int) -> Op:
        mine = frame.classes_of(number)
        dims = b.dims(*(r.name for r in domain.runs if not set(mine).isdisjoint(r.classes)))
        return b.fit(w.value(op, domain.coords(mine)), dims)

    def body(carried: tuple[Op, ...]) -> Sequence[Op]:
        w.push()
        w.known.update(zip(loop.carries, carried, strict=True))
        w.known.update((a, _number(frame, a, loop, line)) for a in loop.numbers)
        for fold in folds:
            w.known[fold] = reduce_tile(frame, fold, w.value(fold.x, operand_coords(frame, fold)))
        new = [tile(program.results[n], n) for n in range(count)]
        for n in range(count, len(program.results)):
            frame.store(n)
        w.pop()
        return new

    first = [(name, tile(loop.begins.get(name, carry), n))
             for n, (name, carry) in enumerate(zip(loop.before, loop.carries, strict=True))]  # fmt: skip
    last = b.loop(line, first, body)
    w.known.update(zip(program.results[:count], last, strict=True))
    for n, name in enumerate(loop.after):
        if name not in loop.unasked:
            frame.store(n)
    return frame.finish()


def _number(frame: Frame, arg: Op, loop: Loop, line: str) -> Op:
    """How many steps lie before this one in memory."""
    dtype = tt.tensor_type(arg).dtype
    number = frame.b.add(t.Coord(line, (), dtype))
    return frame.b.add(t.Binary("sub", frame.b.add(t.Extent(loop.length - 1, dtype)), number)) if loop.reverse else number


def _held(request: Request, carries: int) -> tuple[Domain, Nest]:
    domain = held_domain(request, carries)
    return domain, held_nest(request, domain)


def _lanes(request: Request) -> tuple[Domain, Nest]:
    """The axes of lanes that never meet, cut up as elementwise work is."""
    domain, family = elementwise_domain(request)
    live = 1 + sum(1 for a in request.program.args if tt.tensor_type(a).shape)
    return domain, request.nest(family, domain, live)
