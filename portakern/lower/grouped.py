"""The grouped family: rows that are sorted by group, times a matrix for each group, as mixtures of experts have them.

A block takes a tile of rows and walks the groups that these are of, mostly one: from that of its first row to that of its
last, since the numbers of groups ascend.  Each gives the tile's product with its matrix, of which the rows that are its own are
kept.  So the work is that of the rows, and of one more tile where a group ends.
"""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.errors import ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.lower.contraction import dot
from portakern.lower.domain import Domain, Run
from portakern.lower.kernel import Frame, Request, grid, one_by_one
from portakern.lower.parts import OPTION, parts_of
from portakern.lower.tiles import Picked, wide


def lower_grouped(request: Request) -> t.Kernel:
    op = next(op for op in request.program.body.ops if isinstance(op, tt.SegmentContract))
    domain = _domain(request, op)
    schedule = request.choose(request.nest("grouped", domain, live=4, dots=tt.tensor_type(op.lhs).dtype))
    one_by_one(schedule, domain.role("group"))
    if parts_of(schedule) > 1:
        raise ScheduleError(f"{OPTION} in the schedule of a grouped product, which is not made in parts")
    walked = [*domain.role("group"), *domain.role("k")]
    axes = [*grid([*domain.role("m"), *domain.role("n")], schedule),
            *(t.Axis(r.name, "loop", r.extent, schedule.tile(r.name)) for r in walked)]
    frame = Frame(request, domain, axes, schedule, "grouped")
    frame.w.known[op] = frame.b.cast(_product(frame, op), wide(op.dtype))
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return frame.finish()


def _domain(request: Request, op: tt.SegmentContract) -> Domain:
    (rows, columns), (group, depth, _) = request.classes.of(op), request.classes.of_operand(op, 1)
    return Domain([Run((c,), role) for c, role in ((rows, "m"), (columns, "n"), (group, "group"), (depth, "k"))])


def _product(frame: Frame, op: tt.SegmentContract) -> Op:
    b, w = frame.b, frame.w
    m, n, k, group = (frame.domain.role(r)[0].name for r in ("m", "n", "k", "group"))
    dtype = op.dtype if DTYPES[op.dtype].bits >= 32 else "f32"
    sides = [(x, frame.domain.coords(frame.request.classes.of_operand(op, i))) for i, x in enumerate((op.lhs, op.rhs))]
    rows = w.value(op.groups, (t.Index.of(m),))
    lo, hi = _groups(frame, op, m)

    def nothing() -> Op:
        return b.full(0.0 if DTYPES[dtype].is_float else 0, dtype, b.dims(m, n))

    def step(carried: tuple[Op, ...]) -> tuple[Op, ...]:
        w.push()
        (part,) = b.loop(k, [("part", nothing())], lambda acc: (dot(frame, op, sides, acc[0], (m, n, k)),))
        w.pop()
        return (b.select(b.compare("eq", rows, b.coord(group)), part, carried[0]),)

    (acc,) = b.loop(group, [("acc", nothing())], step, lo, hi)
    return acc


def _groups(frame: Frame, op: tt.SegmentContract, m: str) -> tuple[Op, Op]:
    """The first group that rows of this block are of, and the one after the last."""
    b, axis = frame.b, frame.b.axis[m]
    count = frame.b.axis[frame.domain.role("group")[0].name].extent
    first = b.add(t.Start(m))
    last = b.binary("sub", b.binary("min", b.binary("add", first, b.scalar_size(axis.tile)), b.scalar_size(axis.extent)),
                    b.scalar_size(1))  # fmt: skip
    numbers = [b.cast(frame.w.value(op.groups, (Picked(at, -1),)), "i32") for at in (first, last)]
    return (b.binary("max", numbers[0], b.const(0, "i32")),
            b.binary("min", b.binary("add", numbers[1], b.scalar_size(1)), b.scalar_size(count)))
