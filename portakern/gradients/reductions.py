"""Reductions: what is summed has the gradient of the sum, and of equal extremes each has its share, as in PyTorch's amax."""

from __future__ import annotations

from portakern.gradients.rules import Contributions, Walk, refusal, rule
from portakern.ir import tensor as t
from portakern.ir.size import Size
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import orders, reductions, segments, views
from portakern.spec.traced import Traced


@rule(t.Fold)
def _(op: t.Fold, g: Traced, walk: Walk) -> Contributions:
    x, kept = Traced(op.x), [d for d in range(tensor_type(op.x).rank) if d not in op.axes]

    def spread(value: Traced) -> Traced:
        return ew.expand_at(value, x.shape, kept)

    if op.fn == "sum":
        yield op.x, spread(g)
    elif op.fn in ("max", "min"):
        hit = x == spread(Traced(op))
        count = reductions.sum(ew.cast(hit, _counted(g)), op.axes)
        yield op.x, ew.where(hit, spread(g / ew.cast(count, g.type.dtype)), 0.0)
    else:
        yield op.x, spread(g) * _product_of_others(x, op.axes)


def _counted(g: Traced) -> str:
    """The dtype in which equals are counted: bf16 ends at 256."""
    return "f64" if g.type.dtype == "f64" else "f32"


def _product_of_others(x: Traced, axes: tuple[int, ...]) -> Traced:
    """For every element the product of all others along ``axes``, exact where some are 0."""
    found: Traced | None = None
    for axis in axes:  # the others on its own line, times the lines beside it
        before, behind = (reductions.cumprod(x, axis, reverse=r, exclusive=True) for r in (False, True))
        found = before * behind if found is None else found * (before * behind)
        x = reductions.prod(x, axis, keepdims=True)
    assert found is not None
    return found


@rule(t.SegmentFold)
def _(op: t.SegmentFold, g: Traced, walk: Walk) -> Contributions:
    x = Traced(op.x)
    number = segment_numbers(Traced(op.offsets), x.shape[op.axis])
    if op.fn == "sum":
        yield op.x, views.take(g, number, op.axis)
    elif op.fn in ("max", "min"):
        hit = x == views.take(Traced(op), number, op.axis)
        count = segments.segment_sum(ew.cast(hit, _counted(g)), Traced(op.offsets), op.axis)
        yield op.x, ew.where(hit, views.take(g / ew.cast(count, g.type.dtype), number, op.axis), 0.0)
    else:
        raise refusal(op, f"the {op.fn} of segments", "write it as pk.exp(pk.segment_sum(pk.log(x), offsets))")


def segment_numbers(offsets: Traced, size: Size) -> Traced:
    """The segment that each of ``size`` elements is of, as i32; -1 or the number of segments where it is of none."""
    line = views.arange(size, offsets.type.dtype)
    if isinstance(offsets.shape[0], int):
        return orders.searchsorted(offsets, line, right=True) - 1
    begun = ew.cast(views.expand_dims(offsets, 0) <= views.expand_dims(line, 1), "i32")
    return reductions.sum(begun, 1) - 1
