"""Convolution of images (cross-correlation, as networks use it)."""

from typing import Literal

import portakern as pk


def shapes(window: int, groups: int, layout: str):
    """C channels in each of ``groups`` groups, O results in all."""
    channels = f"{groups}*C" if groups > 1 else "C"
    outputs = f"{groups}*O" if groups > 1 else "O"
    if layout == "NCHW":
        return {"x": ("N", channels, "H", "W"), "w": (outputs, "C", window, window)}
    return {"x": ("N", "H", "W", channels), "w": (window, window, "C", outputs)}


@pk.operator(
    shapes=shapes,
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=1, H=14, W=14, C=32, O=32),
        "ragged": dict(N=2, H=9, W=7, C=6, O=10, stride=2),
        "tiny": dict(N=1, H=3, W=2, C=2, O=3),
        "one": dict(N=1, H=1, W=1, C=1, O=1, window=1, padding=0),
        "zero": dict(N=0, H=8, W=8, C=4, O=4),
        "long": dict(N=1, H=2, W=500, C=3, O=4),
        "unaligned": dict(N=1, H=13, W=11, C=17, O=5, window=5, padding=3, dilation=2),
        "grouped": dict(N=2, H=6, W=5, C=3, O=4, groups=2),
        "channels_first": dict(N=2, H=6, W=7, C=5, O=6, layout="NCHW"),
    },
    inputs={"w": pk.Normal(scale=0.2)},
    torch="F.conv2d(x, w, None, stride, padding, dilation, groups) if layout == 'NCHW' else F.conv2d(x.permute(0, 3, 1, 2), "
    "w.permute(3, 2, 0, 1), None, stride, padding, dilation, groups).permute(0, 2, 3, 1)",
)
def conv2d(
    x: pk.Tensor["N", "H", "W", "C"],
    w: pk.Tensor[3, 3, "C", "O"],
    window: int = 3,
    stride: int = 1,
    padding: int = 1,
    dilation: int = 1,
    groups: int = 1,
    layout: Literal["NHWC", "NCHW"] = "NHWC",
):
    """Sums of products of ``window`` x ``window`` elements of every channel with weights, in f32.

    x [N, H, W, C] with w [window, window, C, O] or, in PyTorch's layout "NCHW", x [N, C, H, W] with w [O, C, window,
    window].  Each of ``groups`` groups has channels and results of its own.
    """
    return pk.conv(x, w, stride, padding, dilation, groups, layout=layout)
