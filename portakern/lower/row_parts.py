"""Few long rows: blocks of their own reduce parts of a row, a second kernel joins them, a third does what needs whole rows.

With ``split_k=8`` in its schedule each level of reductions becomes two kernels: one in which eight blocks walk an eighth of
every row and store what they have carried, and one that joins these as the loop's ``combine`` says.  What is stored for each
row is stored by the last that joins, and what is stored for every element of a row (a softmax, say) is computed from the
reductions' results by an elementwise kernel behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op
from portakern.ir.program import Array
from portakern.ir.schedule import Schedule
from portakern.ir.size import Size
from portakern.lower.classes import AxisClass, axis_classes
from portakern.lower.cuts import program_of
from portakern.lower.domain import of_result, real
from portakern.lower.elementwise import lower_elementwise
from portakern.lower.kernel import Frame, Lowered, Request, along, at_most, grid
from portakern.lower.parts import parts_axis, parts_of, range_of_part, store_part, whole_loop, with_copies
from portakern.lower.row_joins import join_rows
from portakern.lower.rows import Carried, Count, fold_of, levels_of, lower_rows, rows_nest, walk
from portakern.lower.sliding import lower_sliding, results_of
from portakern.lower.tiles import wide


def lower_rows_or_parts(request: Request) -> Lowered:
    """The rows family: one kernel, or several where the schedule asks for parts."""
    schedule = request.choose(rows_nest(request)[1])  # once: tuned schedules come one after the other
    if parts_of(schedule) > 1:
        return _InParts(request, parts_of(schedule)).lowered()
    return Lowered(((lower_sliding if results_of(schedule) > 1 else lower_rows)(request, schedule),))


class _InParts:
    """One stage of rows, level by level."""

    def __init__(self, request: Request, parts: int) -> None:
        self.request, self.parts = request, parts
        self.kernels: list[t.Kernel] = []
        self.temporaries: list[Array] = []
        self.known: dict[Op, str] = {}  # reductions that earlier kernels have stored, by the name of the array

    def lowered(self) -> Lowered:
        program = self.request.program
        levels = levels_of([op for op in program.body.ops if isinstance(op, tt.Fold)], together=True)
        whole = self._of_whole_rows()
        for number, level in enumerate(levels, 1):
            suffix = str(number) if len(levels) > 1 else ""
            *before, last = self._tied(level)
            for group, folds in enumerate(before, 1):
                self._level(folds, f"{suffix}_{group}")
            others = [n for n, _ in enumerate(program.outputs) if n not in whole]
            self._level(last, suffix, others if number == len(levels) else ())
        if whole:
            results, outputs = [program.results[n] for n in whole], [program.outputs[n] for n in whole]
            self.kernels.append(lower_elementwise(self._part("whole", results, outputs, self.known)))
        return Lowered(tuple(self.kernels), tuple(self.temporaries))

    def _tied(self, folds: Sequence[tt.Fold]) -> list[list[tt.Fold]]:
        """``folds`` by the axes that they have without the rest of the stage, which may be all that ties them."""
        body = program_of(self.request.program, folds, [f"r{n}" for n, _ in enumerate(folds)], self.known)
        classes = axis_classes(body, {})
        tied: dict[tuple[frozenset[AxisClass], frozenset[AxisClass]], list[tt.Fold]] = {}
        for fold, op in zip(folds, body.results, strict=True):
            reduced = frozenset(classes.of_operand(op, 0)[a] for a in fold.axes)
            tied.setdefault((reduced, frozenset(real(classes.of(op)))), []).append(fold)
        return list(tied.values())

    def _of_whole_rows(self) -> list[int]:
        """The numbers of the outputs that are stored for every element of a row."""
        domain, _ = rows_nest(self.request)
        reduced = {c for r in domain.role("reduced") for c in r.classes}
        program, classes = self.request.program, self.request.classes
        return [n for n, _ in enumerate(program.results) if reduced & set(of_result(program, classes, n))]

    def _level(self, folds: Sequence[tt.Fold], suffix: str, follow: Sequence[int] = ()) -> None:
        """``follow``: the numbers of the outputs that follow from these reductions, and are stored where they are joined."""
        outputs = [f"{self.request.name}_{f.fn}{suffix}_{n}" for n, f in enumerate(folds)]
        dtypes = {n: wide(tt.tensor_type(f).dtype) for n, f in zip(outputs, folds, strict=True)}
        self.request = replace(self.request, unrounded={**self.request.unrounded, **dtypes})
        mine = self._part(f"parts{suffix}", folds, outputs, self.known)
        partial, combine = self._reduce(mine)
        mapped = dict(zip(mine.program.results, folds, strict=True))
        arrays = {_of_stage(f, mapped): array for f, array in partial.items()}
        self.temporaries += arrays.values()
        made = {f: Array(n, t.BufferType(tt.tensor_type(f).shape, dtypes[n]), "temporary")
                for n, f in zip(outputs, folds, strict=True)}  # fmt: skip
        done = len(follow) == len(self.request.program.outputs)
        known = {f: next(a for a in self.temporaries if a.name == name) for f, name in self.known.items()}
        mine = replace(self.request, name=f"{self.request.name}_join{suffix}")
        self.kernels.append(join_rows(mine, arrays, {} if done else made, known, combine, follow))
        if not done:
            self.known.update(zip(folds, outputs, strict=True))
            self.temporaries += made.values()

    def _part(self, what: str, results: Sequence[Op], outputs: Sequence[str], arrays: Mapping[Op, str]) -> Request:
        """A request for a part of the stage's program in which the values in ``arrays`` are arguments."""
        program = with_copies(program_of(self.request.program, results, outputs, arrays))
        classes = self.request.classes
        names = {name: tuple(c.name for c in classes.of(op)) for op, name in arrays.items()}
        for op in self.request.program.body.ops:
            for n, x in enumerate(op.operands):
                if isinstance(x, Arg) and tt.tensor_type(x).shape and not isinstance(op, tt.Reshape):
                    names.setdefault(x.name, tuple(c.name for c in classes.of_operand(op, n)))
        return replace(self.request, name=f"{self.request.name}_{what}", program=program, classes=axis_classes(program, names))

    def _reduce(self, request: Request) -> tuple[dict[Carried, Array], Block]:
        """The kernel whose blocks reduce parts of rows: what it stores of what they carry, and how parts join."""
        folds = [op for op in request.program.body.ops if isinstance(op, tt.Fold)]
        domain, nest = rows_nest(request)
        schedule = request.choose(nest)
        parallel, reduced = domain.role("parallel"), domain.role("reduced")
        at_most(schedule, parallel, 1, "parallel axes")
        at_most(schedule, reduced, 1, "reduced axes")
        chosen = nest.divided(dict(schedule.tiles))
        shared = next((r for r in reduced if chosen is not None and r.name == chosen.name), reduced[0])
        part = parts_axis(domain, self._parts_of(schedule, along(shared, schedule).steps))
        loops = [replace(along(r, schedule), kind="loop") for r in reduced]
        frame = Frame(request, domain, [part, *grid(parallel, schedule), *loops], schedule, "rows")
        walked = frame.b.axis[shared.name]
        totals = walk(frame, folds, reduced, {walked.name: range_of_part(frame, part, walked)})
        found = {f: store_part(frame, part, fold_of(f), total, "count" if isinstance(f, Count) else f.fn)
                 for f, total in totals.items()}  # fmt: skip
        combine = whole_loop(frame).combine
        self.kernels.append(frame.finish())
        return found, combine

    def _parts_of(self, schedule: Schedule, steps: Size) -> int:
        """How many parts a level has: as its own schedule asks, else that of the whole stage, as far as there are steps."""
        own = parts_of(schedule)
        return own if own > 1 or not isinstance(steps, int) else max(1, min(self.parts, steps))


def _of_stage(carried: Carried, mapped: Mapping[Op, tt.Fold]) -> Carried:
    """``carried`` by a part of the stage's program, as the stage knows it."""
    return Count(mapped[carried.of]) if isinstance(carried, Count) else mapped[carried]
