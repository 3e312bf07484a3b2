"""Pooling, and windows as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portakern.ir.size import product
from portakern.ir.tensor import Assemble
from portakern.spec import elementwise as ew
from portakern.spec import pieces, views, windows
from portakern.spec.traced import Traced, make
from portakern.torch_import.rules import Call, each, rule, wide


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
def _(call: Call, x: Traced, size: Any) -> tuple[Traced, None]:
    from portakern.torch_import.types import NotImported

    if 1 in call.used:
        raise NotImported("the places of an adaptive maximum")
    n = int(call.base[-2])
    return channels_last(x, n, lambda y: windows.adaptive_max_pool(y, tuple(size))), None


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
