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
    if transposed or groups != 1:
        raise NotImported("the gradient of a transposed convolution, or of one in groups")
    wants_x, wants_w, wants_b = (m and i in call.used for i, m in enumerate(mask))
    return (_of_input(g, x, w, stride, padding, dilation) if wants_x else None,
            _of_weight(g, x, w, stride, padding, dilation) if wants_w else None,
            reductions.sum(g, (0, *range(2, n + 2))) if wants_b else None)  # fmt: skip


def _rest(size: Any, out: Any, k: Any, s: int, p: int, d: int) -> int:
    """What the windows leave over at the end of the padded dim."""
    return number(size + 2 * p - d * (k - 1) - 1 - (out - 1) * s, "the gradient of a convolution")


def _of_input(g: Traced, x: Traced, w: Traced, stride: Any, padding: Any, dilation: Any) -> Traced:
    """The transposed convolution of ``g``; w [O, C, *k] is its [inputs, outputs, *k] as it is."""
    rest = [_rest(*v) for v in zip(x.shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)]
    pads = [(p, p - r) for p, r in zip(padding, rest, strict=True)]
    return windows.conv(g, w, stride, pads, dilation, 1, True, layout="NCHW")


def _of_weight(g: Traced, x: Traced, w: Traced, stride: Any, padding: Any, dilation: Any) -> Traced:
    """The convolution of x with g over the batch, whose strides and dilations change places."""
    rest = [_rest(*v) for v in zip(x.shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)]
    pads = [(p, p - r) for p, r in zip(padding, rest, strict=True)]
    pads_ok = all(b >= 0 for _, b in pads)
    if not pads_ok:
        for d, (_, b) in enumerate(pads, 2):
            x = views.getitem(x, (*[slice(None)] * d, slice(0, x.shape[d] + min(b, 0))))
        pads = [(a, max(b, 0)) for a, b in pads]
    turned = windows.conv(views.swapaxes(x, 0, 1), views.swapaxes(g, 0, 1), dilation, pads, stride, layout="NCHW")
    return views.swapaxes(turned, 0, 1)


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
