"""Means of windows of images."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=1, H=12, W=12, C=32),
        "ragged": dict(N=2, H=9, W=7, C=6, window=3, padding=1, count_pads=False),
        "tiny": dict(N=1, H=3, W=2, C=2),
        "one": dict(N=1, H=2, W=2, C=1),
        "zero": dict(N=0, H=8, W=8, C=4),
        "long": dict(N=1, H=4, W=200, C=5),
        "unaligned": dict(N=1, H=6, W=5, C=37, window=3, stride=1, padding=1),
    },
    torch="F.avg_pool2d(x.permute(0, 3, 1, 2), window, stride, padding, False, count_pads).permute(0, 2, 3, 1)",
)
def avg_pool(
    x: pk.Tensor["N", "H", "W", "C"], window: int = 2, stride: int = 2, padding: int = 0, count_pads: bool = True
):
    """The mean of ``window`` x ``window`` elements of a channel, ``stride`` apart, in f32, channels last.

    What lies outside counts as zeros or, without ``count_pads``, not at all.
    """
    return pk.cast(pk.avg_pool(pk.cast(x, pk.f32), window, stride, padding, count_pads=count_pads), x.dtype)
