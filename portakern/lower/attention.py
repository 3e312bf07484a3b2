"""The attention family: a contraction whose operand is a softmax along the contracted axis, in one walk over that axis, by one
block or in parts by several.
"""

from __future__ import annotations

from dataclasses import replace

from portakern.errors import LoweringError, ScheduleError
from portakern.ir import tensor as tt
from portakern.ir import tile as t
from portakern.ir.size import product
from portakern.lower.attention_parts import attention_in_parts
from portakern.lower.attention_walk import settle, walk
from portakern.lower.bounds import find_bounds
from portakern.lower.classes import AxisClass
from portakern.lower.domain import Domain, Run, merge
from portakern.lower.kernel import Frame, Lowered, NoSchedule, Request, covered, grid, one_by_one
from portakern.lower.online import Attention
from portakern.lower.pages import FEW
from portakern.lower.parts import parts_of
from portakern.lower.split import Stage


def lower_attention(request: Request, stage: Stage) -> Lowered:
    found = stage.attention
    assert found is not None
    scores = next(op for op in request.program.body.ops if isinstance(op, tt.Contract) and op is not found.out)
    domain = _domain(request, found, scores)
    whole = [*domain.role("k"), *domain.role("d")]
    for run in whole:
        if not isinstance(run.extent, int):
            raise NoSchedule(f"attention needs tiles that cover {run.name}, whose size is open: {run.extent}")
    dots, first = (tt.tensor_type(x.lhs).dtype for x in (found.out, scores))
    again = _sums_features(request, found)
    nest = request.nest("attention", domain, live=4, dots=dots, passes=1 + again, scores=first)
    bounds = find_bounds(found.weights.softmax.s, domain.role("n")[0].classes[0], request.classes)
    schedule = request.choose(replace(nest, uneven=any(x.read is not None for x in bounds), bounded=bool(bounds)))
    one_by_one(schedule, domain.role("batch"))
    walked = domain.role("n")[0]
    for run in whole:
        if not covered(run, schedule):
            raise LoweringError(f"attention with {run.extent} features along {run.name} needs a tile that covers them, "
                                f"the schedule gives {schedule.tile(run.name)}")
    axes = [*grid([*domain.role("batch"), *domain.role("m")], schedule),
            t.Axis(walked.name, "loop", walked.extent, schedule.tile(walked.name)),
            *(t.Axis(r.name, "whole", r.extent, schedule.tile(r.name)) for r in whole)]
    if (parts := parts_of(schedule)) > 1:
        if again:
            raise ScheduleError(f"split_k={parts}: results are reduced along their features, which no block of the kernel that "
                                "joins parts of the keys has together",
                                hint="leave split_k out, or reduce in an operator of its own")
        return attention_in_parts(request, found, scores, domain, axes, schedule, parts)
    frame = Frame(request, domain, axes, schedule, "attention")
    settle(frame, found, walk(frame, found, scores), walked.extent)
    _sum_features(frame, found)
    for number in range(len(request.program.outputs)):
        frame.store(number)
    return Lowered((frame.finish(),))


def _domain(request: Request, found: Attention, scores: tt.Contract) -> Domain:
    """Roles: m and n are the rows and columns of the scores, d the features of the result, k those of the scores."""
    classes = request.classes
    out = found.out
    sides = (classes.of_operand(out, 0), classes.of_operand(out, 1))
    weights, values = (0, 1) if found.weights_side == 0 else (1, 0)
    batch = [sides[0][i] for i in out.lhs_batch]
    free = (out.lhs_free, out.rhs_free)
    rows = found.rows(scores, classes)
    apart = [c for i in free[weights] if (c := sides[weights][i]) not in rows]
    features = [sides[values][i] for i in free[values]]
    walked = sides[0][out.lhs_axes[0]]
    main_row = _main_rows(request, rows)
    main_feature = _innermost(features)
    lead = [c for c in (*batch, *apart, *rows, *features) if c not in (*main_row, main_feature) and c.extent != 1]
    inner = classes.of_operand(scores, 0)[scores.lhs_axes[0]]
    return Domain([*(Run((c,), "batch") for c in lead), Run(main_row, "m"), Run((walked,), "n"), Run((inner,), "k"),
                   Run((main_feature,), "d")])


def _main_rows(request: Request, rows: list[AxisClass]) -> tuple[AxisClass, ...]:
    """The axes of the rows that a block has: of few rows all that lie side by side, so that it reads the keys once for them."""
    count = product(tuple(c.extent for c in rows))
    if not isinstance(count, int) or not 0 < count <= FEW:
        return (_innermost(rows),)
    runs = merge(rows, "m", request.accesses(), request.unmergeable(counted=False))
    return next((r.classes for r in reversed(runs) if r.extent != 1), runs[-1].classes)


def _innermost(classes: list[AxisClass]) -> AxisClass:
    long = [c for c in classes if c.extent != 1]
    return long[-1] if long else classes[-1]


def _sums_features(request: Request, found: Attention) -> bool:
    """Whether results are reduced along their features."""
    folds = (op for op in request.program.body.ops if isinstance(op, tt.Fold))
    return any(f is not found.weights.softmax.m and f not in found.sums for f in folds)


def _sum_features(frame: Frame, found: Attention) -> None:
    """Reductions over the features of the result, all of which a block has."""
    b, d = frame.b, frame.domain.role("d")[0]
    for fold in frame.request.program.body.ops:
        if not isinstance(fold, tt.Fold) or fold in frame.w.known:
            continue
        x = frame.w.value(fold.x, frame.domain.coords(frame.request.classes.of_operand(fold, 0)))
        x = b.fit(x, (*t.tile_type(x).dims, *b.dims(d.name))) if d.name not in t.tile_type(x).axes else x
        if b.axis[d.name].ragged:
            x = b.add(t.Mask(x, d.name, t.identity(fold.fn, t.tile_type(x).dtype)))
        frame.w.known[fold] = b.add(t.Reduce(fold.fn, x, d.name, loc=fold.loc))
