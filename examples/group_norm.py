"""Group normalisation, with the statistics as further outputs.

portakern check examples/group_norm.py:group_norm --targets numba:cpu
"""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(B=4, G=8, C=16, S=256),
        "ragged": dict(B=3, G=5, C=3, S=77),
        "tiny": dict(B=1, G=2, C=1, S=3),
        "one": dict(B=1, G=1, C=1, S=1),
        "zero": dict(B=0, G=2, C=4, S=8),
        "long": dict(B=1, G=1, C=2, S=20000),
    },
)
def group_norm(
    x: pk.Tensor["B", "G", "C", "S"],
    weight: pk.Tensor["G", "C", pk.f32],
    bias: pk.Tensor["G", "C", pk.f32],
    eps: float = 1e-5,
):
    """Each group of C channels over S places is brought to mean 0 and variance 1."""
    xf = pk.cast(x, pk.f32)
    mean = pk.mean(xf, axis=(2, 3), keepdims=True)
    centred = xf - mean
    rstd = pk.rsqrt(pk.mean(centred * centred, axis=(2, 3), keepdims=True) + eps)
    y = centred * rstd * weight[None, :, :, None] + bias[None, :, :, None]
    return {"y": pk.cast(y, x.dtype), "mean": pk.squeeze(mean, (2, 3)), "rstd": pk.squeeze(rstd, (2, 3))}
