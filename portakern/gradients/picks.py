"""Gathers, scatters and sorts: what was picked is put back, what was put is picked, and what was sorted goes to its place."""

from __future__ import annotations

from portakern.dtypes import DTYPES
from portakern.gradients.rules import Contributions, Walk, refusal, rule
from portakern.ir import tensor as t
from portakern.ir.core import Result
from portakern.ir.size import Size, product
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import orders, views
from portakern.spec.traced import Traced, make


@rule(t.Gather)
def _(op: t.Gather, g: Traced, walk: Walk) -> Contributions:
    shape, axis, indices = tensor_type(op.x).shape, op.axis, Traced(op.indices)
    if op.zipped and indices.shape[axis] == 1:  # one element of each line
        there = views.iota(shape, axis, indices.type.dtype) == views.broadcast_to(indices, shape)
        yield op.x, ew.where(there, views.broadcast_to(g, shape), 0.0)
    elif op.zipped:
        yield op.x, added(shape, indices, g, axis)
    else:
        count = product(indices.shape)
        lines = views.reshape(g, (*shape[:axis], count, *shape[axis + 1 :]))
        places = ew.expand_at(views.reshape(indices, (count,)), lines.shape, (axis,))
        yield op.x, added(shape, places, lines, axis)


def added(shape: tuple[Size, ...], indices: Traced, updates: Traced, axis: int) -> Traced:
    """An array of ``shape`` with the sums of ``updates`` at ``indices``, which are taken in f32 at least."""
    dtype = updates.type.dtype
    wide = dtype if DTYPES[dtype].bits >= 32 else "f32"
    return ew.cast(orders.scatter(views.zeros(shape, wide), indices, ew.cast(updates, wide), axis, "add"), dtype)


@rule(t.Scatter)
def _(op: t.Scatter, g: Traced, walk: Walk) -> Contributions:
    x, indices, updates, y = Traced(op.x), Traced(op.indices), Traced(op.updates), Traced(op)
    picked = views.take_along(g, indices, op.axis)
    if op.mode == "add":
        yield op.x, g
        yield op.updates, picked
    elif op.mode == "set":
        yield op.x, orders.scatter(g, indices, views.zeros(indices.shape, g.type.dtype), op.axis, "set")
        own = views.iota(indices.shape, op.axis)
        last = orders.scatter(views.full(x.shape, -1, "i32"), indices, own, op.axis, "set")
        yield op.updates, ew.where(views.take_along(last, indices, op.axis, -2) == own, picked, 0.0)
    elif op.mode in ("max", "min"):
        mine, theirs = x == y, updates == views.take_along(y, indices, op.axis)
        counts = ew.cast(mine, g.type.dtype) + added(x.shape, indices, ew.cast(theirs, g.type.dtype), op.axis)
        share = g / counts
        yield op.x, ew.where(mine, share, 0.0)
        yield op.updates, ew.where(theirs, views.take_along(share, indices, op.axis), 0.0)
    else:
        if walk.active(op.updates):
            raise refusal(op, "the updates of a scatter that multiplies", "leave them out of wrt, or add logarithms")
        yield op.x, orders.scatter(g, indices, updates, op.axis, "mul")


@rule(t.Sort)
def _(op: t.Sort, g: tuple[Traced | None, ...], walk: Walk) -> Contributions:
    (values, _), order = g, make(Result(op, 1))
    if values is None:
        return
    if op.count:
        yield op.x, added(tensor_type(op.x).shape, order, values, op.axis)
    else:
        yield op.x, views.take_along(values, orders.argsort(order, op.axis), op.axis)
