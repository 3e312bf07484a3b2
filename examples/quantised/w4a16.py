"""Products of 16-bit activations with 4-bit weights, two to a byte, which have a scale and a zero point for each group along k.

Arrays are handed over packed: `pk.pack(integers, pk.u4)`, the first of two neighbours in the lower half of their byte.
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
    inputs={"scale": pk.Uniform(0.01, 0.2)},
    torch="F.linear(x, ((torch.stack((w & 15, w >> 4), -1).flatten(1).unflatten(1, (-1, group)).float() - torch.stack("
    "(zero & 15, zero >> 4), -1).flatten(1)[:, :scale.shape[1], None].float()) * scale[..., None].float()).flatten(1)"
    ".to(x.dtype))",
)
def w4a16(x: pk.Tensor["M", "K"], w: pk.Tensor["N", "K", pk.u4], zero: pk.Tensor["N", "G", pk.u4], scale: pk.Tensor["N", "G"],
          group: int = 128):
    """x @ dequantised(w).T, summed in f32."""
    zeros, scales = (pk.cast(pk.repeat(y, group, axis=1), pk.f32) for y in (zero, scale))
    weights = (pk.cast(w, pk.f32) - zeros) * scales
    return pk.cast(pk.matmul(x, pk.transpose(pk.cast(weights, x.dtype)), pk.f32), x.dtype)


@pk.operator(
    dtypes=("bf16", "f16", "f32"),
    cases={"typical": dict(M=64, N=256, K=512), "ragged": dict(M=33, N=49, K=77), "one": dict(M=1, N=1, K=1),
           "zero": dict(M=0, N=16, K=16)},
    inputs={"scale": pk.Uniform(0.01, 0.2)},
)  # fmt: skip
def channels(x: pk.Tensor["M", "K"], w: pk.Tensor["N", "K", pk.i4], scale: pk.Tensor["N", pk.f32]):
    """x @ w.T * scale with a scale for each row of w: what is of a row comes behind the product."""
    return pk.cast(pk.matmul(x, pk.transpose(pk.cast(w, x.dtype)), pk.f32) * scale, x.dtype)


@pk.operator(
    dtypes=("bf16", "f32"),
    cases={"typical": dict(N=256, K=512), "ragged": dict(N=49, K=77), "one": dict(N=1, K=1), "zero": dict(N=0, K=16)},
)
def quantise(w: pk.Tensor["N", "K"], scale: pk.Tensor["N", pk.f32]):
    """The nearest integers of four bits, packed."""
    return pk.pack(pk.cast(pk.clip(pk.round(pk.cast(w, pk.f32) / scale[:, None]), -8, 7), pk.i4), pk.i4)
