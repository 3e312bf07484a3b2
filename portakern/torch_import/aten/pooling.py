"""Pooling, and windows as columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from portakern.ir.size import Size, product
from portakern.ir.tensor import Assemble
from portakern.spec import elementwise as ew
from portakern.spec import pieces, reductions, views, windows
from portakern.spec.traced import Traced, make
from portakern.torch_import.rules import Call, each, number, rule, spread, value, wide


def channels_last(x: Traced, n: int, pool: Callable[[Traced], Any]) -> Any:
    """``pool``, which takes [N, *spatial, C], of [N, C, *spatial] or [C, *spatial]."""
    batch = x if x.ndim == n + 2 else views.expand_dims(x, 0)
    made = pool(views.transpose(batch, (0, *range(2, n + 2), 1)))

    def back(y: Traced) -> Traced:
        y = views.transpose(y, (0, n + 1, *range(1, n + 1)))
        return y if x.ndim == n + 2 else views.reshape(y, y.shape[1:])

    return tuple(map(back, made)) if isinstance(made, tuple) else back(made)


@rule("aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices")
def _(call: Call, x: Traced, window: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False) -> Any:
    n = 2 if "2d" in call.base else 3
    size = each(window, n)
    found = channels_last(x, n, lambda y: windows.max_pool(y, size, each(stride, n, size), each(padding, n), each(dilation, n),
                                                           ceil, indices=1 in call.used))  # fmt: skip
    return found if 1 in call.used else (found, None)


@rule("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def _(call: Call, x: Traced, window: Any, stride: Any = None, padding: Any = 0, ceil: bool = False, count_pads: bool = True,
      divisor: Any = None) -> Traced:  # fmt: skip
    n = int(call.base[-2])
    size = each(window, n)
    count_pads = count_pads or not any(each(padding, n))

    def pool(y: Traced) -> Traced:
        if not divisor:
            return windows.avg_pool(y, size, each(stride, n, size), each(padding, n), ceil, count_pads)
        total = windows.lp_pool(pieces.pad(y, [(0, 0), *((p, p) for p in each(padding, n)), (0, 0)]), 1, size,
                                each(stride, n, size), ceil)  # fmt: skip
        return ew.divide(total, float(divisor))

    return channels_last(x, n, pool)


@rule("aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d", "aten.adaptive_avg_pool1d")
def _(call: Call, x: Traced, size: Any) -> Traced:
    n = int(call.base[-2])
    return channels_last(x, n, lambda y: windows.adaptive_avg_pool(y, tuple(size)))


@rule("aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def _(call: Call, x: Traced, size: Any) -> tuple[Traced, Traced | None]:
    n = int(call.base[-2])
    if 1 not in call.used:
        return channels_last(x, n, lambda y: windows.adaptive_max_pool(y, tuple(size))), None
    begins, longest, ends = [], [], []
    for have, count in zip(x.shape[-n:], size, strict=True):
        total = number(have, "the places of an adaptive maximum")
        first = [i * total // count for i in range(count)]
        last = [-(-(i + 1) * total // count) for i in range(count)]
        at = ew.cast(views.arange(count), "i32")
        begins.append(ew.floor_divide(ew.multiply(at, total), count))
        ends.append(ew.floor_divide(ew.add(ew.multiply(ew.add(at, 1), total), count - 1), count))
        longest.append(max(b - a for a, b in zip(first, last, strict=True)))
    begins, ends = ([_of_places(v, d, n) for d, v in enumerate(lines)] for lines in (begins, ends))
    return _largest(x, n, begins, ends, longest)


def _of_places(line: Traced, dim: int, n: int) -> Traced:
    """Numbers of windows along spatial dim ``dim`` with dims of 1 for all others."""
    return views.reshape(line, tuple(line.shape[0] if d == dim else 1 for d in range(n)))


def _largest(x: Traced, n: int, begins: list[Traced], ends: list[Traced] | None, window: list[int]) -> tuple[Traced, Traced]:
    """The largest element of each window of the last ``n`` dims of x, and its place among their elements.  Windows are those
    elements of ``window`` from ``begins`` on, along each dim, that are below ``ends``."""
    sizes = x.shape[-n:]
    lead = x.shape[: x.ndim - n]
    counts = tuple(b.shape[b.ndim - n + d] for d, b in enumerate(begins))
    batch = begins[0].shape[: begins[0].ndim - n]
    shape = (*batch, *counts, *window)
    place: Traced | None = None
    inside: Traced | None = None
    for d, begin in enumerate(begins):
        at = ew.add(spread_windows(begin, shape, n), views.iota(shape, len(shape) - n + d, "i32"))
        if ends is not None:
            here = ew.less(at, spread_windows(ends[d], shape, n))
            inside = here if inside is None else ew.logical_and(inside, here)
        at = ew.minimum(at, value(sizes[d], "i32") - 1)
        place = at if place is None else ew.add(ew.multiply(place, sizes[d]), at)
    assert place is not None
    flat = views.reshape(x, (*lead, product(sizes)))
    taps = product(tuple(window))
    index = views.reshape(place, (*batch, product(counts), taps))
    index = spread(index, (*lead, product(counts), taps))
    found = views.take_along(flat, views.reshape(index, (*lead, product(counts) * taps)), flat.ndim - 1)
    found = views.reshape(found, (*lead, product(counts), taps))
    if inside is not None:
        found = ew.where(views.reshape(inside, (product(counts), taps)), found, value(-math.inf, x.type.dtype))
    top = views.expand_dims(reductions.argmax(found, -1), found.ndim - 1)
    values, places = (views.take_along(v, top, found.ndim - 1) for v in (found, index))
    return views.reshape(values, (*lead, *counts)), views.reshape(places, (*lead, *counts))


def spread_windows(begin: Traced, shape: tuple[Size, ...], n: int) -> Traced:
    return spread(views.reshape(begin, (*begin.shape, *[1] * n)), shape)


@rule("aten.fractional_max_pool2d", "aten.fractional_max_pool3d")
def _(call: Call, x: Traced, window: Any, size: Any, samples: Traced) -> tuple[Traced, Traced]:
    """Windows whose distances are the given random numbers rounded (Graham, Fractional max-pooling, 2014): of each image and
    channel and dim one number, in 2D that of the last dim first."""
    n = int(call.base[-2])
    window, size = each(window, n), each(size, n)
    begins = []
    for d in range(n):
        inner, outer = number(x.shape[x.ndim - n + d], "fractional pooling"), number(size[d], "fractional pooling")
        step = (inner - window[d]) / (outer - 1) if outer > 1 else 0.0
        sample = ew.cast(samples[..., n - 1 - d if n == 2 else d], wide(samples.type.dtype))
        sample = views.expand_dims(sample, sample.ndim)
        line = ew.cast(views.arange(outer), sample.type.dtype)
        begin = ew.subtract(ew.floor(ew.multiply(ew.add(line, sample), step)), ew.floor(ew.multiply(sample, step)))
        begin = ew.where(ew.equal(line, float(outer - 1)), float(inner - window[d]), begin)
        lead = samples.shape[:-1] if x.ndim == n + 2 else samples.shape[1:-1]
        begins.append(views.reshape(ew.cast(begin, "i32"), (*lead, *(outer if k == d else 1 for k in range(n)))))
    return _largest(x, n, begins, None, list(window))


@rule("aten.im2col")
def _(call: Call, x: Traced, window: Any, dilation: Any, padding: Any, stride: Any) -> Traced:
    """[N, C, H, W] to [N, C * taps, positions]."""
    batch = x if x.ndim == 4 else views.expand_dims(x, 0)
    rows = windows.unfold(views.transpose(batch, (0, 2, 3, 1)), each(window, 2), each(stride, 2), each(padding, 2),
                          each(dilation, 2))  # fmt: skip
    return views.reshape(views.swapaxes(views.reshape(rows, (rows.shape[0], product(rows.shape[1:3]), rows.shape[3])), 1, 2),
                         call.shape)  # fmt: skip


@rule("aten.col2im")
def _(call: Call, x: Traced, size: Any, window: Any, dilation: Any, padding: Any, stride: Any) -> Traced:
    """The columns of each tap, put where its elements lie, and added."""
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (each(v, 2) for v in (window, dilation, padding, stride))
    batch = x if x.ndim == 3 else views.expand_dims(x, 0)
    h, w = size
    rows, columns = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    n, channels = batch.shape[0], call.shape[-3]
    taps = views.reshape(ew.cast(batch, wide(x.type.dtype)), (n, channels, kh, kw, rows, columns))
    whole = (n, channels, h + 2 * ph, w + 2 * pw)
    total: Traced | None = None
    for i in range(kh):
        for j in range(kw):
            tap = taps[:, :, i, j]
            there = make(Assemble((tap.op,), whole, (0, 0, i * dh, j * dw), (1, 1, sh, sw), 0.0))
            total = there if total is None else ew.add(total, there)
    assert total is not None
    return views.reshape(total[:, :, ph : ph + h, pw : pw + w], call.shape)
