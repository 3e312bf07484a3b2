"""What every family does around its body: ask for a schedule, declare axes, close the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from portakern.dtypes import DTYPES
from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir.builder import Builder
from portakern.ir.core import Arg, Block
from portakern.ir.program import Array, ArrayFacts
from portakern.ir.schedule import Nest, Schedule
from portakern.ir.size import Size
from portakern.ir.tile import Axis, Kernel, verify_kernel
from portakern.lower.classes import AxisClass, Classes
from portakern.lower.cleanup import clean
from portakern.lower.domain import (
    ArrayType,
    Domain,
    Run,
    accesses,
    array_types,
    of_result,
    own_taps,
    real,
    unmergeable,
    windows_of,
)
from portakern.lower.placing import Line, Placed
from portakern.lower.tiles import Arrays, TileWriter, wide


class NoSchedule(ScheduleError):
    """A language has no schedule for a nest, whatever is asked for."""


Choose = Callable[[Nest], Schedule]
Joins = Callable[[Size, Size, int], bool]


def always(*_: object) -> bool:
    return True


@dataclass(frozen=True)
class Request:
    """One stage to lower: its name, program, axis classes, scalar arguments, facts of arrays and who chooses the schedule.

    ``unrounded`` has the dtypes of arrays between kernels that hold values as they were computed: a row's maximum that is
    rounded on its way would not be what the row's elements, computed once more, are compared with.  ``placed`` says which
    outputs are pieces of arrays, ``lines`` which arrays the program has one element of, along a dim of which it does not know.
    ``joins`` says whether two neighbouring dims of an array may be seen as one (:class:`portakern.backend.Language`).
    """

    name: str
    program: tt.TensorProgram
    classes: Classes
    choose: Choose
    scalars: frozenset[str] = frozenset()
    facts: Mapping[str, ArrayFacts] | None = None
    unrounded: Mapping[str, str] = field(default_factory=dict)
    placed: Mapping[str, Placed] = field(default_factory=dict)
    lines: Mapping[str, Line] = field(default_factory=dict)
    joins: Joins = always

    def nest(self, family: str, domain: Domain, live: int, dots: str = "", passes: int = 1, scores: str = "",
             slides: AxisClass | None = None, precision: str = "ieee") -> Nest:  # fmt: skip
        widest = self._widest(domain)
        picking = {c for op in self.program.body.ops if isinstance(op, tt.Gather) for c in self.classes.of_operand(op, 1)}
        marks = windows_of(self.program, self.classes), own_taps(self.program, self.classes)
        runs = zip(domain.nest_axes(*marks), domain.runs, strict=True)
        stacked = self._stacked(domain)
        axes = tuple(replace(a, picks=not picking.isdisjoint(r.classes), slides=slides in r.classes,
                             stacked=stacked in r.classes) for a, r in runs)
        results = zip(self.program.outputs, self.program.results, strict=True)
        stored = _wider(self.unrounded.get(name, tt.tensor_type(r).dtype) for name, r in results)
        work = sum(isinstance(op, tt.Map | tt.Convert | tt.Gather | tt.RandomBits) for op in self.program.body.ops)
        return Nest(family, axes, *widest, live=live, dots=dots, passes=passes, scores=scores, stored=stored, work=work,
                    precision=precision)  # fmt: skip

    def _stacked(self, domain: Domain) -> AxisClass | None:
        """The axis before the contiguous one in every array that has both."""
        seen = (real(dims) for dims in self.accesses())
        before = {dims[-2] for dims in seen if len(dims) > 1 and dims[-1] is domain.contiguous}
        return before.pop() if len(before) == 1 else None

    def _widest(self, domain: Domain) -> tuple[str, str]:
        """The widest dtype of arrays loaded and stored, and the widest dtype computed in.  Indices count where they lie side
        by side with what they pick: one for a whole row says nothing of the bytes that a thread moves at once."""
        apart = {i for op in self.program.body.ops if isinstance(op, tt.Gather) and isinstance(i := op.indices, Arg)
                 and domain.contiguous not in self.classes.of_operand(op, 1)}  # fmt: skip
        arrays = [tt.tensor_type(a).dtype for a in self.program.args if tt.tensor_type(a).shape and a not in apart]
        widest = _wider([*arrays, *(tt.tensor_type(r).dtype for r in self.program.results)])
        values = [wide(op.type.dtype) for op in self.program.body.ops if isinstance(op.type, tt.TensorType)]
        return widest, _wider([wide(widest), *values])

    def accesses(self) -> list[tuple[AxisClass, ...]]:
        """For every array that the stage loads or stores, the axes of its dims as that access sees them."""
        return accesses(self.program, self.classes, self.placed, self.lines)

    def unmergeable(self, counted: bool = True) -> set[AxisClass]:
        """Axes that cannot be merged with their neighbours, with those along which coordinates are ``counted`` or without."""
        return unmergeable(self.program, self.classes, self.facts, self.placed, counted)

    def lying_apart(self) -> set[AxisClass]:
        """Axes that are not to be merged with those before them, since an array lies otherwise in memory then."""
        found: set[AxisClass] = set()
        for dims in map(real, self.accesses()):
            neighbours = zip(dims, dims[1:], reversed(range(len(dims) - 1)), strict=False)
            found |= {inner for outer, inner, inside in neighbours if not self.joins(outer.extent, inner.extent, inside)}
        return found

    def array_types(self) -> dict[str, ArrayType]:
        found = array_types(self.program, self.scalars, self.facts, self.placed, self.lines)
        return {name: replace(have, dtype=self.unrounded.get(name, have.dtype)) for name, have in found.items()}


def _wider(dtypes: Iterable[str]) -> str:
    """The widest of ``dtypes``."""
    return max(dtypes, key=lambda d: DTYPES[d].bits)


@dataclass(frozen=True)
class Lowered:
    """What a stage became: its kernels in order, and the temporaries between them."""

    kernels: tuple[Kernel, ...]
    temporaries: tuple[Array, ...] = ()


class Frame:
    """A kernel under construction: builder, arrays and tile writer over declared axes."""

    def __init__(self, request: Request, domain: Domain, axes: Iterable[Axis], schedule: Schedule, family: str) -> None:
        self.request, self.domain, self.family, self.schedule = request, domain, family, schedule
        self.axes = tuple(axes)
        self.b = Builder(self.axes)
        self.arrays = Arrays(request.array_types())
        self.w = TileWriter(self.b, self.arrays, request.lines)

    def store(self, number: int) -> None:
        """Store output ``number`` of the stage."""
        program = self.request.program
        op = program.results[number]
        coords = self.domain.coords(self.classes_of(number))
        name = program.outputs[number]
        self.w.store(op, name, tt.tensor_type(op).shape, coords, self.request.placed.get(name))

    def classes_of(self, number: int):
        return of_result(self.request.program, self.request.classes, number)

    def finish(self) -> Kernel:
        names = [a.name for a in self.request.program.args] + list(self.request.program.outputs)
        between = [n for n in self.arrays.args if n not in names]
        args = sorted(self.arrays.args.values(), key=lambda a: [*names, *between].index(a.name))
        body = Block(tuple(args), self.b.ops)
        kernel = clean(Kernel(self.request.name, body, self.family, self.axes, self.schedule))
        verify_kernel(kernel)
        return kernel


def grid(runs: Iterable[Run], schedule: Schedule) -> list[Axis]:
    return [Axis(r.name, "grid", r.extent, schedule.tile(r.name)) for r in runs]


def covered(run: Run, schedule: Schedule) -> bool:
    """Whether one tile covers the axis."""
    return isinstance(run.extent, int) and schedule.tile(run.name) >= run.extent


def along(run: Run, schedule: Schedule) -> Axis:
    """The axis of a run that is covered by one tile, or walked."""
    return Axis(run.name, "whole" if covered(run, schedule) else "loop", run.extent, schedule.tile(run.name))


def one_by_one(schedule: Schedule, runs: Iterable[Run]) -> None:
    """Raise :class:`ScheduleError` where the schedule gives tiles above 1 to axes that are never tiled."""
    if many := [r for r in runs if schedule.tile(r.name) > 1]:
        raise ScheduleError(f"the schedule {schedule} tiles {', '.join(r.name for r in many)}: "
                            f"{' and '.join(dict.fromkeys(r.role for r in many))} axes have tiles of 1")  # fmt: skip


def at_most(schedule: Schedule, runs: Iterable[Run], limit: int, what: str) -> None:
    """Tiles have at most two dims: raise :class:`ScheduleError` where the schedule asks for more."""
    many = [r.name for r in runs if schedule.tile(r.name) > 1]
    if len(many) > limit:
        raise ScheduleError(f"the schedule {schedule} tiles {', '.join(many)}: at most {limit} {what} may have a tile above 1")
