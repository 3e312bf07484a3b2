"""Products of 16-bit activations with 8-bit weights, which have a scale for each group of neighbours along k.

The weights are dequantised where they are multiplied: they are read as 8 bits, and no other array of them exists.
"""

import portakern as pk


@pk.operator(
    shapes=lambda group: {"x": ("M", f"{group}*G"), "w": ("N", f"{group}*G")},
    dtypes=("bf16", "f16", "f32"),
    cases={
        "typical": dict(M=64, N=256, G=4),
        "ragged": dict(M=33, N=49, G=3),
        "tiny": dict(M=2, N=3, G=1),
        "one": dict(M=1, N=1, G=1),
        "zero": dict(M=0, N=16, G=1),
        "long": dict(M=3, N=16, G=40),
        "small_groups": dict(M=17, N=40, G=5, group=32),
        "odd_groups": dict(M=17, N=40, G=3, group=96),
    },
    inputs={"scale": pk.Uniform(0.001, 0.02)},
    torch="F.linear(x, (w.float().unflatten(1, (-1, group)) * scale[..., None].float()).flatten(1).to(x.dtype))",
)
def w8a16(x: pk.Tensor["M", "K"], w: pk.Tensor["N", "K", pk.i8], scale: pk.Tensor["N", "G"], group: int = 128):
    """x @ dequantised(w).T, summed in f32."""
    weights = pk.cast(w, pk.f32) * pk.cast(pk.repeat(scale, group, axis=1), pk.f32)
    return pk.cast(pk.matmul(x, pk.transpose(pk.cast(weights, x.dtype)), pk.f32), x.dtype)
