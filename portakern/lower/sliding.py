"""Rows over windows that overlap: one walk along the taps makes several neighbouring results, and reads each element once.

With ``slide=4`` in its schedule a kernel makes four neighbouring results along one dim of positions.  What their windows see
at one tap are elements some strides apart; at the next tap they are the elements one further on.  So the walk along that dim's
taps carries those it will meet again, and each step loads a single new one: 6 loads for 3 taps of 4 results, not 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.schedule import Schedule
from portakern.lower.domain import Domain, Run, Slide
from portakern.lower.kernel import Frame, Request, along, at_most, grid, one_by_one
from portakern.lower.rows import COMBINE, dims_of_total, name_of_total, operand_coords, ordered, rows_nest, slide_in_rows
from portakern.lower.simplify import identity
from portakern.lower.tiles import Coordinates, Reaching, wide


def results_of(schedule: Schedule) -> int:
    """How many neighbouring results one walk makes."""
    asked = schedule.option("slide", 1)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise ScheduleError(f"slide={asked} in the schedule: a positive integer is needed")
    return asked


def lower_sliding(request: Request, schedule: Schedule) -> t.Kernel:
    """A kernel of rows that makes ``slide`` results at a time."""
    domain, _ = rows_nest(request)
    folds = [op for op in request.program.body.ops if isinstance(op, tt.Fold)]
    slide, count = slide_in_rows(request, folds), results_of(schedule)
    if slide is None or int(slide.positions.extent) % count:  # type: ignore[call-overload]
        what = "no windows overlap here" if slide is None else f"{slide.positions} is no multiple of it"
        raise ScheduleError(f"slide={count} in the schedule: {what}")
    reduced = sorted(domain.role("reduced"), key=lambda r: slide.taps in r.classes)
    at_most(schedule, domain.role("parallel"), 2, "parallel axes")
    one_by_one(schedule, reduced)
    axes = [*grid(domain.role("parallel"), schedule), *(along(r, schedule) for r in reduced)]
    groups = int(slide.positions.extent) // count  # type: ignore[call-overload]
    axes = [replace(a, extent=groups) if a.name == slide.positions.name else a for a in axes]
    frame = Frame(request, domain, axes, schedule, "rows")
    _Walk(frame, slide, count, folds).write(reduced)
    return frame.finish()


class _Walk:
    """The walk of one kernel that makes ``count`` results at a time."""

    def __init__(self, frame: Frame, slide: Slide, count: int, folds: Sequence[tt.Fold]) -> None:
        self.frame, self.slide, self.folds = frame, slide, folds
        place = t.Index.of(slide.positions.name, count)
        self.domains = [frame.domain.at(slide.positions, replace(place, offset=n)) for n in range(count)]
        self.ahead = slide.stride * (count - 1)  # elements that are carried

    def write(self, reduced: Sequence[Run]) -> None:
        frame = self.frame
        init = [(f"{name_of_total(f, i)}{n}", frame.b.full(identity(f.fn, dtype), dtype, dims_of_total(frame, f)))
                for n in range(len(self.domains)) for i, f in enumerate(self.folds)
                for dtype in (wide(tt.tensor_type(f).dtype),)]  # fmt: skip
        totals = self._nested([r for r in reduced if frame.b.axis[r.name].kind == "loop"], init)
        for n, domain in enumerate(self.domains):
            frame.domain = domain
            frame.w.known.update(zip(self.folds, self._of(totals, n), strict=True))
            for number in range(len(frame.request.program.outputs)):
                frame.store(number)

    def _of(self, totals: Sequence[Op], n: int) -> Sequence[Op]:
        return totals[n * len(self.folds) : (n + 1) * len(self.folds)]

    def _nested(self, runs: Sequence[Run], init: Sequence[tuple[str, Op]]) -> tuple[Op, ...]:
        if len(runs) < 2:
            return self._slid(init)
        first, *rest = runs

        def body(carried: tuple[Op, ...]) -> tuple[Op, ...]:
            self.frame.w.push()
            out = self._nested(rest, [(name, c) for (name, _), c in zip(init, carried, strict=True)])
            self.frame.w.pop()
            return out

        return self.frame.b.loop(first.name, init, body)

    def _slid(self, init: Sequence[tuple[str, Op]]) -> tuple[Op, ...]:
        """The innermost loop, along the taps that the windows slide over."""
        frame, view = self.frame, self.slide.view
        at_first = self.domains[0].at(self.slide.taps, t.Index())
        seen = [(f"seen{j}", frame.w.value(view.x, self._further(at_first, j))) for j in range(self.ahead)]

        def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
            frame.w.push()
            totals, held = carried[: len(init)], carried[len(init) :]
            for j, tile in enumerate(held):
                frame.w.hold(view.x, self._further(self.domains[0], j), tile)
            new = frame.w.value(view.x, self._further(self.domains[0], self.ahead))
            out: list[Op] = []
            for n, domain in enumerate(self.domains):
                frame.domain = domain
                out += [self._added(f, x) for f, x in zip(self.folds, self._of(totals, n), strict=True)]
            frame.w.pop()
            return (*out, *held[1:], new) if held else tuple(out)

        return frame.b.loop(self.slide.taps.name, [*init, *seen], step)[: len(init)]

    def _added(self, fold: tt.Fold, total: Op) -> Op:
        b = self.frame.b
        part = b.cast(self.frame.w.value(fold.x, operand_coords(self.frame, fold)), t.tile_type(total).dtype)
        return b.binary(COMBINE[fold.fn], *ordered(b, total, part))

    def _further(self, domain: Domain, elements: int) -> Coordinates:
        """Where the first result's window lies in the array, ``elements`` further on."""
        view, d = self.slide.view, self.slide.view.dims[self.slide.number]
        coords = list(self.frame.w.in_windows(view, domain.coords(self.frame.request.classes.of(view))))
        c = coords[d]
        index = c.index if isinstance(c, Reaching) else c
        assert isinstance(index, t.Index)
        index = replace(index, offset=index.offset + elements)
        coords[d] = replace(c, index=index) if isinstance(c, Reaching) else index
        return tuple(coords)

