"""Views and moves: their gradients go back to where the elements came from, and repeated elements have the sum."""

from __future__ import annotations

from portakern.gradients.rules import Contributions, Piece, Walk, rule
from portakern.ir import tensor as t
from portakern.ir.size import Size
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
from portakern.spec.traced import Traced, make


@rule(t.Expand)
def _(op: t.Expand, g: Traced, walk: Walk) -> Contributions:
    shape = tensor_type(op.x).shape
    kept = [d for i, d in enumerate(op.dims) if shape[i] == op.shape[d]]
    repeated = tuple(d for d in range(g.ndim) if d not in kept and g.shape[d] != 1)
    yield op.x, views.reshape(reductions.sum(g, repeated) if repeated else g, shape)


@rule(t.Reshape)
def _(op: t.Reshape, g: Traced, walk: Walk) -> Contributions:
    yield op.x, views.reshape(g, tensor_type(op.x).shape)


@rule(t.Transpose)
def _(op: t.Transpose, g: Traced, walk: Walk) -> Contributions:
    yield op.x, views.transpose(g, *(op.order.index(d) for d in range(g.ndim)))


@rule(t.Flip)
def _(op: t.Flip, g: Traced, walk: Walk) -> Contributions:
    yield op.x, views.flip(g, op.axes)


@rule(t.Slice)
def _(op: t.Slice, g: Traced, walk: Walk) -> Contributions:
    yield op.x, Piece(g, op.starts, op.steps)


@rule(t.PadWith)
def _(op: t.PadWith, g: Traced, walk: Walk) -> Contributions:
    yield op.x, cut(g, op.low, (1,) * g.ndim, tensor_type(op.x).shape)


@rule(t.Concat)
def _(op: t.Concat, g: Traced, walk: Walk) -> Contributions:
    begin: Size = 0
    for part in op.parts:
        shape = tensor_type(part).shape
        starts = tuple(begin if d == op.axis else 0 for d in range(g.ndim))
        yield part, cut(g, starts, (1,) * g.ndim, shape)
        begin = begin + shape[op.axis]


@rule(t.Assemble)
def _(op: t.Assemble, g: Traced, walk: Walk) -> Contributions:
    for part, (offsets, steps) in zip(op.parts, op.places, strict=True):
        yield part, cut(g, offsets, steps, tensor_type(part).shape)


def cut(x: Traced, starts: tuple[Size, ...], steps: tuple[int, ...], shape: tuple[Size, ...]) -> Traced:
    """``shape`` elements of ``x`` from ``starts`` on, in ``steps``."""
    if 0 in shape:
        return views.zeros(shape, x.type.dtype)
    ends = tuple(a + (n - 1) * s + 1 for a, n, s in zip(starts, shape, steps, strict=True))
    whole = all(a == 0 and e == n for a, e, n in zip(starts, ends, x.shape, strict=True)) and set(steps) <= {1}
    return x if whole else make(t.Slice(x.op, starts, ends, steps))


# ---- windows: every element has the sum of what the windows that it is in give it ------------------------------------------


@rule(t.Windows)
def _(op: t.Windows, g: Traced, walk: Walk) -> Contributions:
    shape, rank = tensor_type(op.x).shape, tensor_type(op.x).rank
    entries = list(zip(op.dims, op.strides, op.dilation, op.around[0], strict=True))
    for number, (d, stride, dilation, low) in reversed(list(enumerate(entries))):
        # [.., window o, .., taps before, tap k] becomes [.., element i, .., tap k] by picking, and is summed over k.
        tap = rank + number
        picked = (*g.shape[:d], shape[d], *g.shape[d + 1 :])
        place = window_over(picked, d, tap, stride, dilation, low, g.shape[d])
        g = reductions.sum(views.take_along(g, place, d), tap)
    yield op.x, g


def window_over(shape: tuple[Size, ...], d: int, tap: int, stride: int, dilation: int, low: int, windows: Size) -> Traced:
    """Which of ``windows`` has element i (along dim ``d``) as its k-th (along dim ``tap``): o where ``stride * o + dilation *
    k - low`` is i, or -1."""
    place = views.iota(shape, d) + low - views.iota(shape, tap) * dilation
    if stride == 1:
        return place
    inside = (place >= 0) & (place % stride == 0)
    return ew.where(inside, place // stride, -1)


@rule(t.WindowFold)
def _(op: t.WindowFold, g: Traced, walk: Walk) -> Contributions:
    from portakern.gradients.pooling import of_pooling

    yield op.x, of_pooling(op, g)
