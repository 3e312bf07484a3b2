"""Convolution of every channel of images with a window of its own (Sifre and Mallat 2014)."""

import portakern as pk


@pk.operator(
    shapes=lambda window: {"w": (window, window, 1, "C")},
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=1, H=12, W=12, C=32),
        "ragged": dict(N=2, H=9, W=7, C=6, stride=2),
        "tiny": dict(N=1, H=3, W=2, C=2),
        "one": dict(N=1, H=1, W=1, C=1),
        "zero": dict(N=0, H=8, W=8, C=4),
        "long": dict(N=1, H=3, W=2, C=300),
        "unaligned": dict(N=1, H=6, W=5, C=37, window=5, padding=2),
    },
    torch="F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), None, stride, padding, 1, x.shape[-1]).permute(0, 2, 3, 1)",
)
def depthwise_conv(
    x: pk.Tensor["N", "H", "W", "C"],
    w: pk.Tensor[3, 3, 1, "C"],
    window: int = 3,
    stride: int = 1,
    padding: int = 1,
):
    """Sums of products of ``window`` x ``window`` elements of a channel with its weights, in f32, channels last."""
    return pk.conv(x, w, stride, padding, groups=x.shape[-1], layout="NHWC")
