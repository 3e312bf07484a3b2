"""Root mean square normalisation with scale (Zhang and Sennrich 2019)."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, N=1024),
        "ragged": dict(M=37, N=1001),
        "tiny": dict(M=3, N=4),
        "one": dict(M=5, N=1),
        "zero": dict(M=0, N=96),
        "long": dict(M=2, N=65537),
        "unaligned": dict(M=129, N=770),
    },
    torch="F.rms_norm(x, x.shape[-1:], w, eps)",
)
def rms_norm(x: pk.Tensor["M", "N"], w: pk.Tensor["N"], eps: float = 1e-6):
    """x / sqrt(mean(x * x) + eps) * w, per row; rounded to the dtype of x before the weights, as in Llama."""
    xf = pk.cast(x, pk.f32)
    return pk.cast(xf * pk.rsqrt(pk.mean(xf * xf, axis=-1, keepdims=True) + eps), x.dtype) * w
