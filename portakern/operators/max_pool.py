"""The largest elements of windows of images."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=1, H=12, W=12, C=32),
        "ragged": dict(N=2, H=9, W=7, C=6),
        "tiny": dict(N=1, H=3, W=2, C=2),
        "one": dict(N=1, H=1, W=1, C=1),
        "zero": dict(N=0, H=8, W=8, C=4),
        "long": dict(N=1, H=3, W=200, C=5),
        "unaligned": dict(N=1, H=13, W=11, C=37, window=2, padding=0),
    },
    torch="F.max_pool2d(x.permute(0, 3, 1, 2), window, stride, padding).permute(0, 2, 3, 1)",
)
def max_pool(x: pk.Tensor["N", "H", "W", "C"], window: int = 3, stride: int = 2, padding: int = 1):
    """The largest of ``window`` x ``window`` elements of a channel, ``stride`` apart, channels last; NaN where one is."""
    return pk.max_pool(x, window, stride, padding)
