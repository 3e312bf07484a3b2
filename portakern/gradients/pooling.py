"""Pooling: every element walks the windows that it is in, so that nothing is scattered.

The largest or smallest element of a window has its gradient, of equals the first, as in PyTorch.
"""

from __future__ import annotations

from math import prod

from portakern.gradients.moves import window_over
from portakern.gradients.rules import refusal
from portakern.ir import tensor as t
from portakern.ir.size import Size
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import pieces, reductions, views
from portakern.spec.traced import Traced, make


def of_pooling(op: t.WindowFold, g: Traced) -> Traced:
    """The gradient of ``op.x`` for that of the windows' results."""
    if op.fn == "prod":
        raise refusal(op, "products of windows", "take pk.prod over pk.windows(x, ...)")
    dims = [d for d, size in enumerate(op.window) if size != 1 or op.strides[d] != 1 or op.low[d] or op.high[d]]
    if op.fn == "sum":
        return _sum_of_windows(op, g, dims)
    taps = _first(op, dims)
    shape = tensor_type(op.x).shape
    mine = _over_windows(g, op, dims, shape, 0)
    hit = _over_windows(taps, op, dims, shape, -1)
    number = _number(hit.shape, len(shape), [op.window[d] for d in dims])
    return reductions.sum(ew.where(hit == number, mine, 0.0), range(len(shape), len(shape) + len(dims)))


def _sum_of_windows(op: t.WindowFold, g: Traced, dims: list[int]) -> Traced:
    """Elements of windows that do not overlap have one gradient each; others have sums, one dim after the other."""
    shape = tensor_type(op.x).shape
    for d in dims:
        to = (*g.shape[:d], shape[d], *g.shape[d + 1 :])
        if op.window[d] == op.strides[d] and op.dilation[d] == 1 and not op.low[d] and not op.high[d]:
            g = pieces.repeat(g, op.window[d], d)
            g = make(t.Assemble((g.op,), to, (0,) * g.ndim, (1,) * g.ndim, 0.0)) if g.shape != to else g
        else:
            g = reductions.sum(_over_windows(g, op, [d], to, 0), len(to))
    return g


def _over_windows(x: Traced, op: t.WindowFold, dims: list[int], shape: tuple[Size, ...], fill: int) -> Traced:
    """``x``, one number for each window, as [*elements, *taps]: that of the window which has the element as that tap, or
    ``fill``."""
    windows = x.shape
    for n, d in enumerate(dims):
        line = (shape[d], op.window[d])
        place = window_over(line, 0, 1, op.strides[d], op.dilation[d], op.low[d], windows[d])
        x = views.take(x, place, d, fill)  # [.., element, tap, .., taps before]
        x = views.permute(x, (*range(d + 1), *range(d + 2, x.ndim), d + 1))
        assert x.ndim == len(shape) + n + 1
    return x


def _first(op: t.WindowFold, dims: list[int]) -> Traced:
    """The number of the tap at which each window has its extreme, the first among equals."""
    x, rank = Traced(op.x), tensor_type(op.x).rank
    low, high = [op.low[d] for d in range(rank)], [op.high[d] for d in range(rank)]
    outside = float("-inf") if op.fn == "max" else float("inf")
    around = pieces.pad(x, list(zip(low, high, strict=True)), outside) if any((*low, *high)) else x
    window, strides, dilation = (tuple(entry[d] for d in dims) for entry in (op.window, op.strides, op.dilation))
    seen = make(t.Windows(around.op, tuple(dims), window, strides, dilation))
    sizes = [op.window[d] for d in dims]
    top = views.expand_dims(Traced(op), tuple(range(rank, rank + len(dims))))
    places = ew.where(seen == top, _number(seen.shape, rank, sizes), prod(sizes))
    return reductions.min(places, range(rank, rank + len(dims)))


def _number(shape: tuple[Size, ...], rank: int, sizes: list[int]) -> Traced:
    """The number of a tap, the last dim fastest."""
    total: Traced | None = None
    for n, size in enumerate(sizes):
        along = views.iota(shape, rank + n)
        total = along if total is None else total * size + along
    return total if total is not None else views.zeros(shape, "i32")
