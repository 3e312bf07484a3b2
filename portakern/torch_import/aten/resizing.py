"""Images resized and sampled: every axis by picking neighbours and weighing them."""

from __future__ import annotations

import itertools
from typing import Any

from portakern.ir.size import Size, product
from portakern.spec import contractions, pieces, reductions, views
from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, number, rule, value, wide

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
"""PyTorch's modes of sampling, and what lies beyond the border."""


def _scales(args: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """What the caller said the factors are, by axis: PyTorch lists them, or has an argument for each."""
    found = args[0] if args and isinstance(args[0], list | tuple) else args
    return tuple(found) if len(found) == n else (None,) * n


def _step(size: int, out: int, scale: float | None) -> float:
    return 1.0 / scale if scale else size / out


# ---- the nearest neighbour ------------------------------------------------------------------------------------------


@rule("aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d", "aten._upsample_nearest_exact1d",
      "aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact3d")
def _(call: Call, x: Traced, size: Any, *scales: Any) -> Traced:
    centre = 0.5 if "exact" in call.base else 0.0
    for d, scale in enumerate(_scales(scales, x.ndim - 2), 2):
        x = _nearest(x, d, number(call.shape[d], "resizing"), scale, centre)
    return x


def _nearest(x: Traced, dim: int, out: int, scale: float | None, centre: float) -> Traced:
    size = number(x.shape[dim], "resizing")
    if out % size == 0 and not (scale and scale * size != out):
        return pieces.repeat(x, out // size, dim)
    at = ew.multiply(ew.add(ew.cast(views.arange(out), "f32"), centre), _step(size, out, scale))
    return views.take(x, ew.cast(ew.minimum(ew.floor(at), float(size - 1)), "i32"), dim)


# ---- linear ---------------------------------------------------------------------------------------------------------


@rule("aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d")
def _(call: Call, x: Traced, size: Any, align: bool, *scales: Any) -> Traced:
    x = ew.cast(x, wide(x.type.dtype)) if x.type.dtype != "u8" else ew.cast(x, "f32")
    for d, scale in enumerate(_scales(scales, x.ndim - 2), 2):
        x = _linear(x, d, number(call.shape[d], "resizing"), align, scale)
    return x


def _linear(x: Traced, dim: int, out: int, align: bool, scale: float | None) -> Traced:
    size = number(x.shape[dim], "resizing")
    line = ew.cast(views.arange(out), x.type.dtype)
    if align:
        at = ew.multiply(line, (size - 1) / (out - 1) if out > 1 else 0.0)
    else:
        at = ew.maximum(ew.subtract(ew.multiply(ew.add(line, 0.5), _step(size, out, scale)), 0.5), 0.0)
    low = ew.minimum(ew.floor(at), float(size - 1))
    high = ew.minimum(ew.add(low, 1.0), float(size - 1))
    a, b = (views.take(x, ew.cast(i, "i32"), dim) for i in (low, high))
    share = ew.expand_at(ew.subtract(at, low), a.shape, (dim,))
    return ew.add(ew.multiply(a, ew.subtract(1.0, share)), ew.multiply(b, share))


@rule("aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa")
def _(call: Call, x: Traced, size: Any, align: bool, *scales: Any) -> Traced:
    """Each output weighs all inputs that a filter of its own width reaches: a product with weights for each axis."""
    x = ew.cast(x, wide(x.type.dtype)) if x.type.dtype != "u8" else ew.cast(x, "f32")
    for d, scale in enumerate(_scales(scales, 2), 2):
        weights = _smoothing(number(x.shape[d], "resizing"), number(call.shape[d], "resizing"), align, scale,
                             "bicubic" in call.base, x.type.dtype)  # fmt: skip
        x = contractions.einsum("nchw,oh->ncow" if d == 2 else "nchw,ow->ncho", x, weights)
    return ew.clip(ew.round(x), 0.0, 255.0) if call.dtype == "u8" else x


@rule("aten.upsample_bicubic2d")
def _(call: Call, x: Traced, size: Any, align: bool, *scales: Any) -> Traced:
    """A product with weights for each axis, of four neighbours for each output."""
    x = ew.cast(x, wide(x.type.dtype))
    for d, scale in enumerate(_scales(scales, 2), 2):
        have, out = number(x.shape[d], "resizing"), number(call.shape[d], "resizing")
        line = ew.cast(views.arange(out), x.type.dtype)
        at = ew.multiply(line, (have - 1) / (out - 1) if out > 1 else 0.0) if align else ew.subtract(
            ew.multiply(ew.add(line, 0.5), _step(have, out, scale)), 0.5)
        column = ew.cast(views.iota((out, have), 1, "i32"), x.type.dtype)
        weights: Any = 0.0
        for place, weight in _cubic_terms(at, have, align, BORDER):
            hit = ew.equal(column, views.expand_dims(place, 1))
            weights = ew.add(weights, ew.where(hit, views.expand_dims(weight, 1), 0.0))
        x = contractions.einsum("nchw,oh->ncow" if d == 2 else "nchw,ow->ncho", x, weights)
    return x


def _smoothing(size: int, out: int, align: bool, scale: float | None, cubic: bool, dtype: str) -> Traced:
    """Weights [out, size], whose rows add up to 1."""
    step = ((size - 1) / (out - 1) if out > 1 else 0.0) if align else _step(size, out, scale)
    width = max(step, 1.0)
    reach = (2.0 if cubic else 1.0) * width
    row, column = (ew.cast(views.iota((out, size), d, "i32"), dtype) for d in (0, 1))
    centre = ew.multiply(ew.add(row, 0.5), step)
    first = ew.maximum(ew.floor(ew.add(ew.subtract(centre, reach), 0.5)), 0.0)
    last = ew.minimum(ew.floor(ew.add(ew.add(centre, reach), 0.5)), float(size))
    apart = ew.abs(ew.divide(ew.add(ew.subtract(column, centre), 0.5), width))
    weight = _cubic(apart) if cubic else ew.maximum(ew.subtract(1.0, apart), 0.0)
    inside = ew.logical_and(ew.greater_equal(column, first), ew.less(column, last))
    weight = ew.where(inside, weight, 0.0)
    return ew.divide(weight, reductions.sum(weight, 1, keepdims=True))


def _cubic(t: Traced) -> Traced:
    """Keys' kernel with a = -1/2 at distances ``t``."""
    near = ew.add(ew.multiply(ew.multiply(ew.subtract(ew.multiply(t, 1.5), 2.5), t), t), 1.0)
    far = ew.add(ew.multiply(ew.subtract(ew.multiply(ew.add(ew.multiply(t, -0.5), 2.5), t), 4.0), t), 2.0)
    return ew.where(ew.less(t, 1.0), near, ew.where(ew.less(t, 2.0), far, 0.0))


# ---- sampled at given places ----------------------------------------------------------------------------------------


@rule("aten.grid_sampler_2d", "aten.grid_sampler_3d")
def _(call: Call, x: Traced, grid: Traced, mode: int, padding: int, align: bool) -> Traced:
    return sampled(x, grid, mode, padding, align)


def sampled(x: Traced, grid: Traced, mode: int, padding: int, align: bool) -> Traced:
    """x [N, C, *sizes] at grid [N, *places, (x, y, ..)], each from -1 to 1."""
    places = grid.shape[1:-1]
    made = _sampled(x, views.reshape(grid, (grid.shape[0], product(places), grid.shape[-1])), mode, padding, align)
    return views.reshape(made, (*x.shape[:2], *places))


def _sampled(x: Traced, grid: Traced, mode: int, padding: int, align: bool) -> Traced:
    """[N, C, P] at grid [N, P, (x, y, ..)]: places as one dim need no reshape in between, which would be stored."""
    sizes = [number(s, "sampling") for s in x.shape[2:]]
    grid = ew.cast(grid, wide(grid.type.dtype))
    at = [_pixel(grid[..., len(sizes) - 1 - d], size, align) for d, size in enumerate(sizes)]
    if mode == CUBIC:
        return _weighed(x, [_cubic_terms(p, s, align, padding) for p, s in zip(at, sizes, strict=True)])
    at = [_within(p, s, align, padding) for p, s in zip(at, sizes, strict=True)]
    if mode == NEAREST:
        return _picked(x, [ew.round(p) for p in at])
    return _weighed(x, [_linear_terms(p) for p in at])


def _pixel(at: Traced, size: int, align: bool) -> Traced:
    """Coordinates from -1 to 1 as pixels."""
    up = ew.add(at, 1.0)
    return ew.multiply(up, (size - 1) / 2) if align else ew.subtract(ew.multiply(up, size / 2), 0.5)


def _within(pixel: Traced, size: int, align: bool, padding: int) -> Traced:
    """Pixels beyond the border on it, or mirrored at it."""
    if padding == REFLECTION:
        low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
        if span == 0:
            return ew.multiply(pixel, 0.0)
        there = ew.remainder(ew.abs(ew.subtract(pixel, low)), 2 * span)
        pixel = ew.add(ew.minimum(there, ew.subtract(2 * span, there)), low)
    return ew.clip(pixel, 0.0, float(size - 1)) if padding != ZEROS else pixel


Terms = list[tuple[Traced, Traced]]
"""Whole pixels along a dim, and the weight of each."""


def _linear_terms(pixel: Traced) -> Terms:
    low = ew.floor(pixel)
    share = ew.subtract(pixel, low)
    return [(low, ew.subtract(1.0, share)), (ew.add(low, 1.0), share)]


def _cubic_terms(pixel: Traced, size: int, align: bool, padding: int) -> Terms:
    """Of four neighbours, by Keys' kernel with a = -3/4."""
    low = ew.floor(pixel)
    share = ew.subtract(pixel, low)

    def near(t: Traced) -> Traced:
        return ew.add(ew.multiply(ew.multiply(ew.subtract(ew.multiply(t, 1.25), 2.25), t), t), 1.0)

    def far(t: Traced) -> Traced:
        return ew.add(ew.multiply(ew.add(ew.multiply(ew.add(ew.multiply(t, -0.75), 3.75), t), -6.0), t), 3.0)

    rest = ew.subtract(1.0, share)
    weights = far(ew.add(share, 1.0)), near(share), near(rest), far(ew.add(rest, 1.0))
    return [(_within(ew.add(low, float(k)), size, align, padding), w) for k, w in enumerate(weights, -1)]


def _weighed(x: Traced, terms: list[Terms]) -> Traced:
    """The sum over all choices of one neighbour along each dim."""
    total: Traced | None = None
    for choice in itertools.product(*terms):
        weight = choice[0][1]
        for _, other in choice[1:]:
            weight = ew.multiply(weight, other)
        term = ew.multiply(_picked(x, [at for at, _ in choice]), views.expand_dims(weight, 1))
        total = term if total is None else ew.add(total, term)
    assert total is not None
    return total


def _picked(x: Traced, at: list[Traced]) -> Traced:
    """x [N, C, *sizes] at whole pixels [N, P] along each dim, 0 outside."""
    n, channels, *sizes = x.shape
    shape: tuple[Size, ...] = (n, channels, at[0].shape[1])
    inside: Traced | None = None
    for pixel, size in zip(at, sizes, strict=True):
        here = ew.logical_and(pixel >= 0.0, pixel < value(size, pixel.type.dtype))
        inside = here if inside is None else ew.logical_and(inside, here)
    assert inside is not None
    place: Traced | None = None
    for pixel, size in zip(at, sizes, strict=True):
        whole = ew.cast(ew.where(inside, pixel, 0.0), "i32")
        place = whole if place is None else ew.add(ew.multiply(place, size), whole)
    assert place is not None
    found = views.take_along(views.reshape(x, (n, channels, product(tuple(sizes)))), ew.expand_at(place, shape, (0, 2)), 2)
    return ew.where(ew.expand_at(inside, shape, (0, 2)), found, 0.0)
