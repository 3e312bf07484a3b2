"""Gradients that PyTorch has as operations of their own, and which our rules of the forward give by reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from portakern.gradients.reverse import gradients
from portakern.ir.core import Arg, Op
from portakern.ir.size import Size, product
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views
from portakern.spec.traced import Traced, record, recording
from portakern.torch_import.aten import bags, losses, resizing
from portakern.torch_import.aten.indexing import scattered
from portakern.torch_import.rules import RULES, Call, number, rule, wide
from portakern.torch_import.types import Meta, NotImported


def pulled_back(forward: Callable[..., Any], given: Sequence[Traced], gradient: Traced, wrt: Sequence[int] = (0,)
                ) -> list[Traced]:  # fmt: skip
    """The gradients of those of ``given`` that ``wrt`` numbers, for that of what ``forward`` gives for them (the first of
    several results)."""
    args = [Arg(f"x{n}", x.type) for n, x in enumerate(given)]
    with recording() as ops:
        made = forward(*map(Traced, args))
        made = made[0] if isinstance(made, tuple) else made
        arrived = ew.cast(views.reshape(gradient, made.shape), made.type.dtype)
        found = gradients(tuple(ops), [(made.op, arrived)], [args[n] for n in wrt])
    known: dict[Op, Op] = dict(zip(args, (x.op for x in given), strict=True))
    for op in ops:
        known[op] = record(op.remap(lambda o: known.get(o, o)))
    return [views.zeros(given[n].shape, given[n].type.dtype) if g is None else Traced(known.get(g.op, g.op))
            for n, g in zip(wrt, found, strict=True)]


def _forward(call: Call, name: str, shape: tuple[Size, ...], *args: Any) -> Callable[..., Any]:
    """The rule of ``name`` as a function of its first argument, with a result of ``shape``."""
    meta = Meta(shape, call.dtype)
    of_forward = Call(name, (meta, None), frozenset({0}), True, call.lies, call.seed)
    found = RULES[".".join(name.split(".")[:2])]
    return lambda x: found(of_forward, x, *args)


# ---- images -----------------------------------------------------------------------------------------------------------

RESIZED = ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_nearest1d",
           "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
           "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")  # fmt: skip


@rule(*(f"aten.{name}_backward" for name in RESIZED))
def _(call: Call, g: Traced, size: Any, input_size: Any, *args: Any) -> Traced:
    """It is linear, so that the numbers of the image do not matter."""
    image = views.zeros(tuple(input_size), wide(g.type.dtype))
    name = call.base.removesuffix("_backward")
    return pulled_back(_forward(call, name, g.shape, size, *args), [image], g)[0]


@rule("aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward")
def _(call: Call, g: Traced, x: Traced) -> Traced:
    n = int(call.base.removesuffix("_backward")[-2])
    return pulled_back(_forward(call, call.base.removesuffix("_backward"), g.shape, g.shape[-n:]), [x], g)[0]


@rule("aten.avg_pool2d_backward", "aten.avg_pool3d_backward")
def _(call: Call, g: Traced, x: Traced, *args: Any) -> Traced:
    return pulled_back(_forward(call, call.base.removesuffix("_backward"), g.shape, *args), [x], g)[0]


@rule("aten.max_pool3d_with_indices_backward", "aten.adaptive_max_pool2d_backward", "aten.adaptive_max_pool3d_backward",
      "aten.fractional_max_pool2d_backward", "aten.fractional_max_pool3d_backward")
def _(call: Call, g: Traced, x: Traced, *args: Any) -> Traced:
    """Put where the largest were."""
    n = 3 if "3d" in call.base else 2
    lead, inner, taps = x.shape[:-n], product(x.shape[-n:]), product(g.shape[-n:])
    start = views.zeros((*lead, inner), wide(x.type.dtype))
    index, new = (views.reshape(v, (*lead, taps)) for v in (args[-1], ew.cast(g, wide(x.type.dtype))))
    return views.reshape(scattered(start, start.ndim - 1, index, new, "add"), x.shape)


@rule("aten.grid_sampler_2d_backward", "aten.grid_sampler_3d_backward")
def _(call: Call, g: Traced, x: Traced, grid: Traced, mode: int, padding: int, align: bool, asked: Sequence[bool]
      ) -> tuple[Traced | None, ...]:  # fmt: skip
    wanted = [n for n in (0, 1) if asked[n] and n in call.used]
    found = pulled_back(lambda x, grid: resizing.sampled(x, grid, mode, padding, align), [x, grid], g, wanted)
    made = dict(zip(wanted, found, strict=True))
    return made.get(0), made.get(1)


# ---- distances --------------------------------------------------------------------------------------------------------


def _slope(apart: Traced, size: Traced, p: float) -> Traced:
    """How a distance grows with each of its differences; 0 where there is no distance."""
    if p == 0:
        return ew.multiply(apart, 0.0)
    sign = ew.sign(apart)
    if p == 1:
        return sign
    if p == float("inf"):
        return ew.where(ew.equal(ew.abs(apart), size), sign, 0.0)
    none = ew.equal(size, 0.0)
    over = ew.where(none, 1.0, size)
    if p == 2:
        found = ew.divide(apart, over)
    else:
        share = ew.divide(ew.abs(apart), over)
        flat = ew.equal(share, 0.0)
        found = ew.multiply(sign, ew.where(flat, 0.0, ew.pow(ew.where(flat, 1.0, share), p - 1)))
    return ew.where(none, 0.0, found)


@rule("aten._cdist_backward")
def _(call: Call, g: Traced, a: Traced, b: Traced, p: float, size: Traced) -> Traced:
    apart = ew.subtract(views.expand_dims(a, a.ndim - 1), views.expand_dims(b, b.ndim - 2))
    g, size = (views.expand_dims(v, v.ndim) for v in (g, size))
    return reductions.sum(ew.multiply(_slope(apart, size, float(p)), g), -2)


@rule("aten._pdist_backward")
def _(call: Call, g: Traced, x: Traced, p: float, size: Traced) -> Traced:
    """Of all pairs of rows, those of a row with itself without distance."""
    n = number(x.shape[0], "distances between pairs of rows")
    if n < 2:
        return views.zeros(x.shape, x.type.dtype)
    row, column = (views.iota((n, n), d, "i32") for d in (0, 1))
    low, high = ew.minimum(row, column), ew.maximum(row, column)
    before = ew.floor_divide(ew.multiply(low, ew.subtract(2 * n - 1, low)), 2)  # pairs of rows above
    place = ew.add(before, ew.subtract(ew.subtract(high, low), 1))
    same = ew.equal(row, column)
    g, size = (ew.where(same, 0.0, views.take(v, ew.where(same, 0, place), 0)) for v in (g, size))
    apart = ew.subtract(views.expand_dims(x, 1), views.expand_dims(x, 0))
    slope = _slope(apart, views.expand_dims(size, 2), float(p))
    return reductions.sum(ew.multiply(slope, views.expand_dims(g, 2)), 1)


# ---- others -----------------------------------------------------------------------------------------------------------


@rule("aten._segment_reduce_backward")
def _(call: Call, g: Traced, out: Traced, x: Traced, reduce: str, *, lengths: Traced | None = None,
      offsets: Traced | None = None, axis: int = 0, initial: Any = None) -> Traced:  # fmt: skip
    return pulled_back(lambda x: bags.segmented(x, reduce, lengths, offsets, axis, initial), [x], g)[0]


@rule("aten.multilabel_margin_loss_backward")
def _(call: Call, g: Traced, x: Traced, labels: Traced, reduction: int, is_label: Traced) -> Traced:
    return pulled_back(lambda x: losses.multilabel_margin(x, labels, reduction)[0], [x], g)[0]


@rule("aten.rrelu_with_noise_backward")
def _(call: Call, g: Traced, x: Traced, noise: Traced, lower: float, upper: float, train: bool, is_result: bool) -> Traced:
    if train:
        return ew.multiply(g, noise)
    return ew.where(ew.greater(x, 0.0), g, ew.multiply(g, (lower + upper) / 2))


# ---- bags -------------------------------------------------------------------------------------------------------------


@rule("aten._embedding_bag_backward")
def _(call: Call, g: Traced, index: Traced, offsets: Traced, bag: Traced, sizes: Traced, largest: Traced, rows: Any,
      by_frequency: bool, mode: int, sparse: bool, weights: Traced | None, padding: int = -1) -> Traced:  # fmt: skip
    of_dense = RULES["aten._embedding_bag_dense_backward"]
    return of_dense(call, g, index, _bags(bag, offsets, index), sizes, largest, rows, by_frequency, mode, weights, padding)


def _bags(bag: Traced, offsets: Traced, index: Traced) -> Traced:
    """The bag of each row, also where PyTorch has not kept it."""
    return bag if bag.shape == index.shape else bags.bag_of_each(offsets, index)


@rule("aten._embedding_bag_dense_backward")
def _(call: Call, g: Traced, index: Traced, bag: Traced, sizes: Traced, largest: Traced, rows: Any, by_frequency: bool,
      mode: int, weights: Traced | None, padding: int = -1) -> Traced:  # fmt: skip
    """The gradient of each bag, put in the rows that it has: those of its largest elements, or all."""
    if by_frequency:
        raise NotImported("the gradient of a bag scaled by frequency")
    inner = wide(g.type.dtype)
    g = ew.cast(g, inner)
    start = views.zeros((rows, g.shape[1]), inner)
    if mode == bags.MAX:
        kept = ew.greater(views.expand_dims(sizes, 1), 0)
        return scattered(start, 0, ew.where(kept, largest, -1), ew.where(kept, g, 0.0), "add")
    g = ew.divide(g, views.expand_dims(ew.cast(ew.maximum(sizes, 1), inner), 1)) if mode == bags.MEAN else g
    new = views.take(g, bag, 0)
    new = new if weights is None else ew.multiply(new, views.expand_dims(ew.cast(weights, inner), 1))
    if padding >= 0:
        new = ew.where(views.expand_dims(ew.equal(index, padding), 1), 0.0, new)
    return scattered(start, 0, ew.expand_at(index, new.shape, (0,)), new, "add")


@rule("aten._embedding_bag_per_sample_weights_backward")
def _(call: Call, g: Traced, table: Traced, index: Traced, offsets: Traced, bag: Traced, mode: int, padding: int = -1
      ) -> Traced:  # fmt: skip
    bag = _bags(bag, offsets, index)
    made = reductions.sum(ew.multiply(views.take(g, bag, 0), views.take(table, index, 0)), 1)
    return made if padding < 0 else ew.where(ew.equal(index, padding), 0.0, made)
