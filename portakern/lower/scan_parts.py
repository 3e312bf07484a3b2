"""Few long lines: blocks of their own sum parts of a line, then each scans its part from what is before it.

With ``split_k=8`` in its schedule a scan becomes three kernels.  In the first, eight blocks walk an eighth of every line and
store its total; the second scans these totals, a line of eight for each; in the third the same eight blocks scan their parts,
beginning with what it gave.  A line is read twice, by eight times as many blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Arg, Block, Op, Yield
from portakern.ir.program import Array
from portakern.ir.schedule import Schedule
from portakern.lower.classes import axis_classes
from portakern.lower.domain import Domain
from portakern.lower.kernel import Frame, Lowered, Request, along, grid
from portakern.lower.parts import OPTION, parts_axis, range_of_part
from portakern.lower.rows import COMBINE, operand_coords
from portakern.lower.simplify import identity
from portakern.lower.tiles import wide
from portakern.lower.uses import needed

Step = Callable[[Frame, tuple[Op, ...]], Sequence[Op]]
"""What is done with a tile of a line, from what is carried to what is carried on."""


class ScanInParts:
    """The scans of one stage, by blocks that share each line; ``lower_totals`` lowers that of their totals."""

    def __init__(self, request: Request, domain: Domain, schedule: Schedule, scans: Sequence[tt.Cumulate], parts: int,
                 lower_totals: Callable[[Request], Lowered]) -> None:  # fmt: skip
        self.request, self.domain, self.schedule, self.scans, self.parts = request, domain, schedule, scans, parts
        self.lower_totals = lower_totals
        (self.line,), self.parallel = domain.role("scanned"), domain.role("parallel")
        if depends(scans):
            raise ScheduleError(f"{OPTION}={parts}: a scan of {request.name} takes what another one gives, which no block that "
                                "has a part of a line knows", hint=f"leave {OPTION} out")  # fmt: skip
        if along(self.line, schedule).kind != "loop":
            raise ScheduleError(f"{OPTION}={parts}: one tile covers all of {self.line.name}", hint="take a smaller tile")
        self.shape = (*(r.extent for r in self.parallel), parts)
        self.types = [t.BufferType(self.shape, wide(tt.tensor_type(s).dtype)) for s in scans]

    def lowered(self, store: Step) -> Lowered:
        """``store`` scans a tile and stores what follows."""
        totals = [Array(f"{self.request.name}_total{n or ''}", of, "temporary") for n, of in enumerate(self.types)]
        before = [Array(f"{self.request.name}_before{n or ''}", of, "temporary") for n, of in enumerate(self.types)]
        middle = [self.lower_totals(self._of_totals(*x)) for x in zip(self.scans, totals, before, strict=True)]
        kernels = (self._totals(totals), *(k for m in middle for k in m.kernels), self._scanned(before, store))
        return Lowered(kernels, (*totals, *before))

    # ---- the three kernels

    def _totals(self, arrays: Sequence[Array]) -> t.Kernel:
        frame, part = self._frame("parts", arrays)
        b = frame.b
        empty = [b.full(identity(s.fn, a.dtype), a.dtype, self._dims(frame)) for s, a in zip(self.scans, arrays, strict=True)]
        for array, total in zip(arrays, self._walk(frame, part, empty, self._summed), strict=True):
            b.store(total, frame.arrays.view(array.name, self.shape), self._place(part))
        return frame.finish()

    def _of_totals(self, scan: tt.Cumulate, total: Array, before: Array) -> Request:
        arg = Arg(total.name, tt.TensorType(self.shape, total.dtype))
        made = tt.Cumulate(scan.fn, arg, len(self.shape) - 1, exclusive=True)
        program = tt.TensorProgram(before.name, Block((arg,), (made, Yield((made,)))), (before.name,))
        names = {total.name: (*(f"{r.name}_part" for r in self.parallel), "part")}
        return replace(self.request, name=before.name, program=program, classes=axis_classes(program, names))

    def _scanned(self, arrays: Sequence[Array], store: Step) -> t.Kernel:
        frame, part = self._frame("", arrays)
        place = self._place(part)
        dims = [name for name, _ in self._dims(frame)]
        self._walk(frame, part, [frame.b.load(frame.arrays.view(a.name, self.shape), place, axes=dims) for a in arrays], store)
        return frame.finish()

    # ---- what they share

    def _frame(self, what: str, arrays: Sequence[Array]) -> tuple[Frame, t.Axis]:
        part = parts_axis(self.domain, self.parts)
        request = self.request if not what else replace(self.request, name=f"{self.request.name}_{what}")
        axes = [part, *grid(self.parallel, self.schedule), along(self.line, self.schedule)]
        frame = Frame(request, self.domain, axes, self.schedule, "scan")
        frame.arrays.types = {**frame.arrays.types, **{a.name: a.type for a in arrays}}
        return frame, part

    def _walk(self, frame: Frame, part: t.Axis, begin: Sequence[Op], step: Step) -> tuple[Op, ...]:
        def body(carried: tuple[Op, ...]) -> Sequence[Op]:
            frame.w.push()
            found = step(frame, carried)
            frame.w.pop()
            return found

        names = [f"total{n or ''}" for n in range(len(begin))]
        lo, hi = range_of_part(frame, part, frame.b.axis[self.line.name])
        return frame.b.loop(self.line.name, list(zip(names, begin, strict=True)), body, lo, hi)

    def _summed(self, frame: Frame, carried: tuple[Op, ...]) -> Sequence[Op]:
        b, axis = frame.b, frame.b.axis[self.line.name]
        dims = b.dims(*(r.name for r in self.domain.runs))
        found = []
        for scan, carry in zip(self.scans, carried, strict=True):
            x = b.fit(frame.w.value(scan.x, operand_coords(frame, scan)), dims)
            if axis.tile > 1:
                x = b.add(t.Mask(x, axis.name, identity(scan.fn, t.tile_type(x).dtype))) if axis.ragged else x
                x = b.add(t.Reduce(scan.fn, x, axis.name, loc=scan.loc))
            found.append(b.binary(COMBINE[scan.fn], carry, x))
        return found

    def _dims(self, frame: Frame) -> t.Dims:
        return frame.b.dims(*(r.name for r in self.parallel))

    def _place(self, part: t.Axis) -> tuple[t.Index, ...]:
        return (*(t.Index.of(r.name) for r in self.parallel), t.Index.of(part.name))


def depends(scans: Sequence[tt.Cumulate]) -> bool:
    """Whether one of ``scans`` is computed from another."""
    return not set(needed(s.x for s in scans)).isdisjoint(scans)
