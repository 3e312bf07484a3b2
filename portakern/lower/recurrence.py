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
from portakern.ir.schedule import LOWERED_OPTIONS, Nest, Schedule
from portakern.lower.domain import Domain, Run
from portakern.lower.elementwise import elementwise_domain
from portakern.lower.held_axes import HeldAxes, first_way, held_axes
from portakern.lower.kernel import Choose, Frame, Lowered, Request, along, at_most, covered, grid
from portakern.lower.late_sums import LateSums
from portakern.lower.loops import Loop
from portakern.lower.rows import operand_coords, reduce_tile


def lower_recurrence(request: Request, loop: Loop, line: str, default: Choose, holds_parts: bool) -> Lowered:
    """The kernel of a walked loop, in which the steps run along the axis ``line``, and those that join what it shows in parts.
    ``default`` answers what tiles there are, ``holds_parts`` is as for :func:`portakern.lower.lower`."""
    count = len(loop.before)
    axes = held_axes(replace(request, choose=default), count, loop.length, holds_parts)
    walk = _Walk(request, loop, line, axes or first_way(request, count, holds_parts))
    kernel = walk.kernel()
    joins = walk.late.joins()
    between = (*walk.late.arrays, *(a for j in joins for a in j.temporaries))
    return Lowered((kernel, *(k for j in joins for k in j.kernels)), between)


class _Walk:
    def __init__(self, request: Request, loop: Loop, line: str, axes: HeldAxes | None) -> None:
        self.request, self.loop, self.line = request, loop, line
        self.domain, self.nest = (axes.domain, axes.nest) if axes is not None else _lanes(request)
        self.folds = [op for op in request.program.body.ops if isinstance(op, tt.Fold)]
        self.late = LateSums(request, axes)
        self.schedule = self._schedule()
        held, parallel = self.domain.role("held"), self._parallel()
        declared = [*grid(parallel, self.schedule), *(along(r, self.schedule) for r in held)]
        self.frame = Frame(request, self.domain, [*declared, t.Axis(line, "loop", loop.length, 1)], self.schedule, "recurrence")

    def _parallel(self) -> list[Run]:
        return [r for r in self.domain.runs if r.role != "held"]

    def _schedule(self) -> Schedule:
        schedule = self.request.choose(replace(self.nest, steps=self.loop.length))
        held = self.domain.role("held")
        if cut := [r.name for r in held if not covered(r, schedule)]:
            raise ScheduleError(f"the schedule {schedule} cuts up {', '.join(cut)}, along which a step reduces",
                                hint="its tiles cover these axes: they are carried from step to step as a whole")  # fmt: skip
        if asked := [k for k, _ in schedule.options if k in LOWERED_OPTIONS]:
            raise ScheduleError(f"the schedule {schedule} has {', '.join(asked)}: steps that follow each other have no parts")
        ones = {self.line, *self.late.counted}
        schedule = replace(schedule, tiles=(*((n, s) for n, s in schedule.tiles if n not in ones), *((n, 1) for n in ones)))
        at_most(schedule, self._parallel(), 2 - sum(schedule.tile(r.name) > 1 for r in held), "axes")
        return schedule

    def kernel(self) -> t.Kernel:
        frame, loop, results = self.frame, self.loop, self.request.program.results
        count = len(loop.before)
        first = [(name, self._tile(loop.begins.get(name, carry), n))
                 for n, (name, carry) in enumerate(zip(loop.before, loop.carries, strict=True))]  # fmt: skip
        last = frame.b.loop(self.line, first, self._step)
        frame.w.known.update(zip(results[:count], last, strict=True))
        for n, name in enumerate(loop.after):
            if name not in loop.unasked:
                frame.store(n)
        return frame.finish()

    def _tile(self, op: Op, number: int) -> Op:
        """``op`` as result ``number`` has it."""
        mine, b = self.frame.classes_of(number), self.frame.b
        dims = b.dims(*(r.name for r in self.domain.runs if not set(mine).isdisjoint(r.classes)))
        return b.fit(self.frame.w.value(op, self.domain.coords(mine)), dims)

    def _step(self, carried: tuple[Op, ...]) -> Sequence[Op]:
        frame, loop, program = self.frame, self.loop, self.request.program
        w, count = frame.w, len(loop.before)
        w.push()
        w.known.update(zip(loop.carries, carried, strict=True))
        w.known.update((a, _number(frame, a, loop, self.line)) for a in loop.numbers)
        for fold in self.folds:
            w.known[fold] = reduce_tile(frame, fold, w.value(fold.x, operand_coords(frame, fold)))
        new = [self._tile(program.results[n], n) for n in range(count)]
        for n in range(count, len(program.results)):
            if not self.late.store(frame, n):
                frame.store(n)
        w.pop()
        return new


def _number(frame: Frame, arg: Op, loop: Loop, line: str) -> Op:
    """How many steps lie before this one in memory."""
    dtype = tt.tensor_type(arg).dtype
    number = frame.b.add(t.Coord(line, (), dtype))
    return frame.b.add(t.Binary("sub", frame.b.add(t.Extent(loop.length - 1, dtype)), number)) if loop.reverse else number


def _lanes(request: Request) -> tuple[Domain, Nest]:
    """The axes of lanes that never meet, cut up as elementwise work is."""
    domain, family = elementwise_domain(request)
    live = 1 + sum(1 for a in request.program.args if tt.tensor_type(a).shape)
    return domain, request.nest(family, domain, live)
