"""Gradients that core ATen keeps as operations."""

from __future__ import annotations

from typing import Any

from portakern.ir.size import product
from portakern.spec import elementwise as ew
from portakern.spec import reductions, views, windows
from portakern.spec.traced import Traced
from portakern.torch_import.aten.indexing import scattered
from portakern.torch_import.rules import Call, each, number, rule, wide
from portakern.torch_import.types import NotImported


@rule("aten.convolution_backward")
def _(call: Call, g: Traced, x: Traced, w: Traced, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
      output_padding: Any, groups: int, mask: Any) -> tuple[Traced | None, ...]:  # fmt: skip
    n = x.ndim - 2
    stride, padding, dilation = each(stride, n), each(padding, n), each(dilation, n)
    wants_x, wants_w, wants_b = (m and i in call.used for i, m in enumerate(mask))
    dx = dw = None
    if wants_x and transposed:
        dx = windows.conv(g, w, stride, padding, dilation, groups, layout="NCHW")
    elif wants_x:
        dx = _of_input(g, x, w, stride, padding, dilation, groups)
    if wants_w:  # of a transposed convolution both arrays change places
        dw = _of_weight(*((x, g) if transposed else (g, x)), w, stride, padding, dilation, groups)
    return dx, dw, reductions.sum(g, (0, *range(2, n + 2))) if wants_b else None


def _rest(size: Any, out: Any, k: Any, s: int, p: int, d: int) -> int:
    """What the windows leave over at the end of the padded dim."""
    return number(size + 2 * p - d * (k - 1) - 1 - (out - 1) * s, "the gradient of a convolution")


def _of_input(g: Traced, x: Traced, w: Traced, stride: Any, padding: Any, dilation: Any, groups: int) -> Traced:
    """The transposed convolution of ``g``; w [O, C / groups, *k] is its [inputs, outputs / groups, *k] as it is."""
    rest = [_rest(*v) for v in zip(x.shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)]
    pads = [(p, p - r) for p, r in zip(padding, rest, strict=True)]
    return windows.conv(g, w, stride, pads, dilation, groups, True, layout="NCHW")


def _of_weight(g: Traced, x: Traced, w: Traced, stride: Any, padding: Any, dilation: Any, groups: int) -> Traced:
    """The convolution of x with g over the batch, whose strides and dilations change places: x [C / groups, groups * N, *size]
    in groups with g [O, N, *positions] gives [C / groups, O, *k]."""
    rest = [_rest(*v) for v in zip(x.shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)]
    pads = [(p, p - r) for p, r in zip(padding, rest, strict=True)]
    pads_ok = all(b >= 0 for _, b in pads)
    if not pads_ok:
        for d, (_, b) in enumerate(pads, 2):
            x = views.getitem(x, (*[slice(None)] * d, slice(0, x.shape[d] + min(b, 0))))
        pads = [(a, max(b, 0)) for a, b in pads]
    turned = windows.conv(_by_channel(x, groups), views.swapaxes(g, 0, 1), dilation, pads, stride, groups, layout="NCHW")
    return views.swapaxes(turned, 0, 1)


def _by_channel(x: Traced, groups: int) -> Traced:
    """[N, groups * C, *size] as [C, groups * N, *size]."""
    if groups == 1:
        return views.swapaxes(x, 0, 1)
    count, channels, *size = x.shape
    apart = views.reshape(x, (count, groups, channels // groups, *size))
    turned = views.transpose(apart, (2, 1, 0, *range(3, apart.ndim)))
    return views.reshape(turned, (channels // groups, groups * count, *size))


@rule("aten.max_pool2d_with_indices_backward")
def _(call: Call, g: Traced, x: Traced, window: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: Traced
      ) -> Traced:  # fmt: skip
    lead, inner = x.shape[:-2], product(x.shape[-2:])
    taps = product(g.shape[-2:])
    start = views.zeros((*lead, inner), wide(x.type.dtype))
    index, new = (views.reshape(v, (*lead, taps)) for v in (indices, ew.cast(g, wide(x.type.dtype))))
    return views.reshape(scattered(start, start.ndim - 1, index, new, "add"), x.shape)


@rule("aten.embedding_dense_backward")
def _(call: Call, g: Traced, index: Traced, rows: Any, padding: int, by_frequency: bool) -> Traced:
    if by_frequency:
        raise NotImported("the gradient of an embedding scaled by frequency")
    count = product(index.shape)
    new = views.reshape(g, (count, g.shape[-1]))
    line = views.reshape(index, (count,))
    if padding >= 0:
        new = ew.where(views.expand_dims(ew.equal(line, padding), 1), 0.0, new)
    start = views.zeros((rows, g.shape[-1]), g.type.dtype)
    return scattered(start, 0, ew.expand_at(line, new.shape, (0,)), new, "add")
