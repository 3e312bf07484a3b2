"""Layer normalisation with scale and shift (Ba, Kiros and Hinton 2016)."""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(M=1024, N=1024),
        "ragged": dict(M=37, N=1001),
        "tiny": dict(M=3, N=4),
        "one": dict(M=3, N=1),
        "zero": dict(M=0, N=96),
        "long": dict(M=2, N=65537),
        "unaligned": dict(M=129, N=770),
    },
    torch="F.layer_norm(x, x.shape[-1:], weight, bias, eps)",
)
def layer_norm(x: pk.Tensor["M", "N"], weight: pk.Tensor["N"], bias: pk.Tensor["N"], eps: float = 1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias, per row, in f32."""
    xf = pk.cast(x, pk.f32)
    centred = xf - pk.mean(xf, axis=-1, keepdims=True)
    variance = pk.mean(centred * centred, axis=-1, keepdims=True)
    return pk.cast(centred * pk.rsqrt(variance + eps) * weight + bias, x.dtype)
