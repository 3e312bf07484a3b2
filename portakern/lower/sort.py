"""The sort family: lines, or runs of them, are sorted in a tile, with the elementwise work before and after."""

from __future__ import annotations

from dataclasses import replace

from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op, Result
from portakern.ir.schedule import Schedule
from portakern.lower.domain import Domain, Run, innermost, merge, real
from portakern.lower.kernel import Frame, Request, along, at_most, covered, grid
from portakern.lower.rows import operand_coords

Together = list[tt.KeySort]
"""The results of one sort that somebody asks for."""


def lower_sort(request: Request) -> t.Kernel:
    sorts = _together(request.program)
    first = sorts[0][0]
    domain = _domain(request, sorts)
    (line,), parallel = domain.role("sorted"), domain.role("parallel")
    schedule = request.choose(request.nest("sort", domain, 1 + max(len(together) for together in sorts)))
    at_most(schedule, parallel, 1, "parallel axes")
    schedule = _with_tile(schedule, line.name, first.run) if first.run else schedule
    if not first.run and not covered(line, schedule):
        raise ScheduleError(f"the schedule {schedule} cuts {line.name}: a tile must hold all that it sorts")
    axis = t.Axis(line.name, "grid", line.extent, first.run) if first.run else along(line, schedule)
    first_ones = domain.role("first")
    if cut := [run.name for run in first_ones if not covered(run, schedule)]:
        raise ScheduleError(f"the schedule {schedule} cuts {cut[0]}: a tile must hold all that is asked for of a line")
    kept = [along(run, schedule) for run in first_ones]
    frame = Frame(request, domain, [*grid(parallel, schedule), axis, *kept], schedule, "sort")
    for together in sorts:
        _sorted(frame, line, together)
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return frame.finish()


def _together(program: tt.TensorProgram) -> list[Together]:
    found: dict[object, Together] = {}
    for op in program.body.ops:
        if isinstance(op, tt.KeySort):
            found.setdefault(op.whole, []).append(op)
    return list(found.values())


def _domain(request: Request, sorts: list[Together]) -> Domain:
    """The axis ``sorted`` along, that of the ``first`` elements where only these are asked for, and those of the lines beside
    each other."""
    classes, sort = request.classes, sorts[0][0]
    operand = classes.of_operand(sort, 0)
    line = operand[sort.axis]
    runs = merge([c for c in real(operand) if c is not line], "parallel", request.accesses(), request.unmergeable())
    first = classes.of(sort)[sort.axis]
    inner = innermost(d for d in request.accesses() if len(real(d)) == len(real(operand)))
    return Domain([*runs, Run((line,), "sorted"), *([Run((first,), "first")] if first is not line else [])],
                  inner[0] if inner and inner[0] is not first else line)  # fmt: skip


def _with_tile(schedule: Schedule, axis: str, tile: int) -> Schedule:
    return replace(schedule, tiles=tuple((a, tile if a == axis else n) for a, n in schedule.tiles))


def _sorted(frame: Frame, line: Run, together: Together) -> None:
    b, sort = frame.b, together[0]
    dims = b.dims(*(run.name for run in frame.domain.runs if run.role != "first"))
    wanted = sorted({0, *(op.number for op in together)})
    xs: list[Op] = [b.fit(frame.w.value(sort.xs[n], operand_coords(frame, sort, n)), dims) for n in wanted]
    if b.axis[line.name].ragged:
        xs[0] = b.add(t.Mask(xs[0], line.name, t.identity("min", t.tile_type(xs[0]).dtype)))
    first = frame.domain.role("first")
    into = b.dims(first[0].name) if first else ()
    made = b.add(t.SortBy(tuple(xs), line.name, sort.count, into, loc=sort.loc))
    frame.w.known.update((op, b.add(Result(made, wanted.index(op.number)))) for op in together)
