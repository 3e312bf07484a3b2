"""Batch normalisation of images (Ioffe and Szegedy 2015)."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(N=4, C=16, H=14, W=14),
        "ragged": dict(N=3, C=6, H=9, W=7),
        "tiny": dict(N=2, C=3, H=1, W=2),
        "one": dict(N=1, C=1, H=1, W=2),
        "zero": dict(N=4, C=0, H=8, W=8),
        "long": dict(N=2, C=2, H=50, W=300),
        "unaligned": dict(N=5, C=37, H=3, W=5),
    },
    torch="F.batch_norm(x, None, None, weight.to(x.dtype), bias.to(x.dtype), training=True, eps=eps)",
)
def batch_norm(
    x: pk.Tensor["N", "C", "H", "W"], weight: pk.Tensor["C", pk.f32], bias: pk.Tensor["C", pk.f32], eps: float = 1e-5
):
    """(x - mean) / sqrt(var + eps) * weight + bias, by the mean and variance of every channel of this batch, in f32.

    That is what training computes.  With averages of earlier batches it is a scale and a shift for each channel, which an
    operator writes where it needs them, for instance behind its convolution.
    """
    xf = pk.cast(x, pk.f32)
    centred = xf - pk.mean(xf, axis=(0, 2, 3), keepdims=True)
    scaled = centred * pk.rsqrt(pk.mean(centred * centred, axis=(0, 2, 3), keepdims=True) + eps)
    return pk.cast(scaled * weight[:, None, None] + bias[:, None, None], x.dtype)
