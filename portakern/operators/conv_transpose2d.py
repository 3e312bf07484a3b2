"""Transposed convolution of images: what spreads the elements of a small one over a large one."""

import portakern as pk


@pk.operator(
    shapes=lambda window: {"w": (window, window, "C", "O")},
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=1, H=8, W=8, C=16, O=16),
        "ragged": dict(N=2, H=5, W=7, C=6, O=10, window=3, extra=1),
        "tiny": dict(N=1, H=3, W=2, C=2, O=3),
        "one": dict(N=1, H=1, W=1, C=1, O=1),
        "zero": dict(N=0, H=8, W=8, C=4, O=4),
        "long": dict(N=1, H=2, W=300, C=3, O=2),
        "unaligned": dict(N=1, H=7, W=5, C=17, O=5, window=3, stride=3, padding=0),
        "apart": dict(N=1, H=4, W=3, C=3, O=2, window=2, stride=3, padding=0),
    },
    inputs={"w": pk.Normal(scale=0.2)},
    torch="F.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(2, 3, 0, 1), None, stride, padding, extra).permute(0, 2, 3, 1)",
)
def conv_transpose2d(
    x: pk.Tensor["N", "H", "W", "C"],
    w: pk.Tensor[4, 4, "C", "O"],
    window: int = 4,
    stride: int = 2,
    padding: int = 1,
    extra: int = 0,
):
    """The gradient of a convolution by its input, channels last: each element times the weights, added where they overlap.

    (H - 1) * stride - 2 * padding + window + extra rows; ``extra`` is PyTorch's ``output_padding``.
    """
    around = (padding, padding - extra)
    return pk.conv(x, w, stride, (around, around), transposed=True, layout="NHWC")
