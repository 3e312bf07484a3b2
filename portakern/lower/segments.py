"""The segments family: reductions of the parts of an axis that offsets mark, each walked from where it begins to its end.

A block takes one segment, whose bounds it loads: so much work is done as there are elements, however long single segments are.
Where the axis is not contiguous, what lies side by side goes down it together, one coordinate at a time.  Tiles of the walk
begin at multiples of their size, and what they hold of the segments before and behind is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.lower.domain import Domain, Run, innermost, merge, real
from portakern.lower.kernel import Frame, Request, at_most, grid, one_by_one
from portakern.lower.rows import COMBINE, operand_coords
from portakern.lower.simplify import identity
from portakern.lower.tiles import wide

Bounds = tuple[Op, Op]


def lower_segments(request: Request) -> t.Kernel:
    folds = [op for op in request.program.body.ops if isinstance(op, tt.SegmentFold)]
    domain = _domain(request, folds[0])
    (segment,), (walked,), parallel = domain.role("segment"), domain.role("walked"), domain.role("parallel")
    live = 1 + sum(1 for dims in request.accesses() if len(real(dims)) == len(domain.runs) - 1)
    schedule = request.choose(request.nest("segments", domain, live))
    one_by_one(schedule, [segment])
    at_most(schedule, parallel, 1, "parallel axes")
    axes = [*grid([r for r in domain.runs if r is not walked], schedule),
            t.Axis(walked.name, "loop", walked.extent, schedule.tile(walked.name))]
    frame = Frame(request, domain, axes, schedule, "segments")
    _walk(frame, folds, walked, bounds_of(frame, folds[0].offsets, segment, walked))
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return frame.finish()


def _domain(request: Request, fold: tt.SegmentFold) -> Domain:
    """The axes in the order of the array, the segments before what they are parts of."""
    classes = request.classes
    operand, made = classes.of_operand(fold, 0), classes.of(fold)
    inside, outside = operand[fold.axis], made[fold.axis]
    seen, apart = request.accesses(), request.unmergeable()
    before, behind = (merge(real(c for c in part if c not in (inside, outside)), "parallel", seen, apart)
                      for part in (made[: fold.axis], made[fold.axis + 1 :]))  # fmt: skip
    inner = innermost(d for d in seen if len(real(d)) > 1 and outside not in d)
    runs = [*before, Run((outside,), "segment"), Run((inside,), "walked"), *behind]
    return Domain(runs, inner[0] if inner else inside)


def bounds_of(frame: Frame, offsets: Op, segment: Run, walked: Run) -> Bounds:
    """Where the segment of this block begins and ends: coordinates along ``walked``, whatever ``offsets`` are."""
    b, dtype = frame.b, tt.tensor_type(offsets).dtype
    size, none = b.scalar_size(walked.extent, dtype), b.const(0, dtype)
    at = (t.Index.of(segment.name), t.Index.of(segment.name, 1, 1))
    ends = (b.binary("min", b.binary("max", frame.w.value(offsets, (index,)), none), size) for index in at)
    lo, hi = (b.cast(x, "i32") for x in ends)
    return lo, hi


def _walk(frame: Frame, folds: Sequence[tt.SegmentFold], walked: Run, bounds: Bounds) -> None:
    b, w, lo, hi = frame.b, frame.w, *bounds
    tiled = b.axis[walked.name].tile > 1

    def dims(fold: tt.SegmentFold) -> t.Dims:
        mine = frame.request.classes.of(fold)
        return b.dims(*(r.name for r in frame.domain.runs if any(c in mine for c in r.classes)))

    def step(carried: tuple[Op, ...]) -> list[Op]:
        w.push()
        inside = _inside(frame, walked, bounds) if tiled else None
        new = []
        for fold, state in zip(folds, carried, strict=True):
            x = w.value(fold.x, operand_coords(frame, fold))
            if inside is not None:
                x = _reduced(frame, fold, x, walked, inside)
            new.append(b.binary(COMBINE[fold.fn], state, b.fit(x, t.tile_type(state).dims)))
        w.pop()
        return new

    def join(left: tuple[Op, ...], right: tuple[Op, ...]) -> list[Op]:
        return [b.binary(COMBINE[f.fn], *both) for f, *both in zip(folds, left, right, strict=True)]

    def dtype(fold: tt.SegmentFold) -> str:
        return wide(tt.tensor_type(fold).dtype)

    init = [(f"{_NAMES.get(f.fn, f.fn)}{n or ''}", b.full(_nothing(f), dtype(f), dims(f)))
            for n, f in enumerate(folds)]  # fmt: skip
    w.known.update(zip(folds, b.loop(walked.name, init, step, lo, hi, join), strict=True))


def _nothing(fold: tt.SegmentFold) -> float | int | bool:
    """What an empty segment gives: of integers the end of their own dtype."""
    return identity(fold.fn, tt.tensor_type(fold).dtype)


_NAMES = {"sum": "total", "max": "top", "min": "bottom"}


def _inside(frame: Frame, walked: Run, bounds: Bounds) -> Op:
    """Which coordinates of the tile are the segment's."""
    b, at = frame.b, frame.b.coord(walked.name)
    lo, hi = bounds
    return b.binary("and", b.compare("ge", at, lo), b.compare("lt", at, hi))


def _reduced(frame: Frame, fold: tt.SegmentFold, x: Op, walked: Run, inside: Op) -> Op:
    """``x`` reduced over the tile of the walk, with the identity where it is not the segment's."""
    b, have = frame.b, t.tile_type(x)
    full = have.dims if walked.name in have.axes else (*have.dims, *b.dims(walked.name))
    nothing = b.full(_nothing(fold), have.dtype, full)
    return b.add(t.Reduce(fold.fn, b.select(b.fit(inside, full), b.fit(x, full), nothing), walked.name, loc=fold.loc))
