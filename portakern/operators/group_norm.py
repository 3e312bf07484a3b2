"""Group normalisation of images (Wu and He 2018)."""

import portakern as pk


@pk.operator(
    shapes=lambda groups: {"x": ("N", f"{groups}*C", "H", "W"), "weight": (f"{groups}*C",), "bias": (f"{groups}*C",)},
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=4, C=4, H=14, W=14, groups=8),
        "ragged": dict(N=3, C=3, H=9, W=7),
        "tiny": dict(N=1, C=2, H=1, W=2),
        "one": dict(N=1, C=1, H=1, W=2, groups=1),
        "zero": dict(N=0, C=4, H=8, W=8),
        "long": dict(N=1, C=2, H=50, W=300),
        "unaligned": dict(N=2, C=5, H=3, W=5, groups=7),
    },
    torch="F.group_norm(x, groups, weight.to(x.dtype), bias.to(x.dtype), eps)",
)
def group_norm(
    x: pk.Tensor["N", "2*C", "H", "W"],
    weight: pk.Tensor["2*C", pk.f32],
    bias: pk.Tensor["2*C", pk.f32],
    groups: int = 2,
    eps: float = 1e-5,
):
    """(x - mean) / sqrt(var + eps) * weight + bias, in f32, by the mean and variance of each group of channels of an image."""
    n, channels, h, w = x.shape
    xf = pk.reshape(pk.cast(x, pk.f32), (n, groups, channels // groups, h, w))
    centred = xf - pk.mean(xf, axis=(2, 3, 4), keepdims=True)
    scaled = centred * pk.rsqrt(pk.mean(centred * centred, axis=(2, 3, 4), keepdims=True) + eps)
    return pk.cast(pk.reshape(scaled, x.shape) * weight[:, None, None] + bias[:, None, None], x.dtype)
