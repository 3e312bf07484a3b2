"""The first step of a block of a convolutional network."""

import portakern as pk


@pk.operator(
    shapes=lambda window: {"w": (window, window, "C", "O")},
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=1, H=14, W=14, C=16, O=32),
        "ragged": dict(N=2, H=9, W=7, C=6, O=10, stride=2),
        "tiny": dict(N=1, H=3, W=2, C=2, O=3),
        "one": dict(N=1, H=1, W=1, C=1, O=1),
        "zero": dict(N=0, H=8, W=8, C=4, O=4),
        "long": dict(N=1, H=1, W=1, C=5000, O=4, window=1, padding=0),
        "unaligned": dict(N=1, H=13, W=11, C=7, O=17),
    },
    inputs={"w": pk.Normal(scale=0.2)},
    torch="F.relu(F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), bias.to(x.dtype), stride, padding))"
    ".permute(0, 2, 3, 1)",
)
def conv2d_bias_relu(
    x: pk.Tensor["N", "H", "W", "C"],
    w: pk.Tensor[3, 3, "C", "O"],
    bias: pk.Tensor["O", pk.f32],
    window: int = 3,
    stride: int = 1,
    padding: int = 1,
):
    """relu(conv(x, w) + bias), channels last; nothing is rounded before the end."""
    return pk.cast(pk.relu(pk.conv(x, w, stride, padding, dtype=pk.f32, layout="NHWC") + bias), x.dtype)
