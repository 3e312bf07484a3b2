"""Convolutions."""

from __future__ import annotations

from typing import Any

from portakern.spec import elementwise as ew
from portakern.spec import views, windows
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, column, each, rule


@rule("aten.conv_tbc")
def _(call: Call, x: Traced, w: Traced, bias: Traced, pad: int = 0) -> Traced:
    """Of lines [T, B, C] with weights [taps, C, outputs]."""
    made = windows.conv(views.transpose(x, (1, 2, 0)), views.transpose(w, (2, 1, 0)), 1, pad, 1, 1, layout="NCHW")
    return ew.add(views.transpose(made, (2, 0, 1)), bias)


@rule("aten.convolution")
def _(call: Call, x: Traced, w: Traced, bias: Traced | None, stride: Any, padding: Any, dilation: Any, transposed: bool,
      output_padding: Any, groups: int) -> Traced:  # fmt: skip
    n = x.ndim - 2
    pads = each(padding, n)
    after = tuple(p - o for p, o in zip(pads, each(output_padding, n, 0), strict=True)) if transposed else pads
    made = windows.conv(x, w, each(stride, n), list(zip(pads, after, strict=True)), each(dilation, n), groups, transposed,
                        layout="NCHW")  # fmt: skip
    return made if bias is None else ew.add(made, column(ew.cast(bias, made.type.dtype), made.shape))
