"""Scaled dot-product attention with grouped heads (Vaswani et al. 2017, Ainslie et al. 2023)."""

import math

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(B=1, H=2, G=2, SQ=256, SK=256, D=64, causal=True),
        "full": dict(B=2, H=2, G=1, SQ=128, SK=192, D=64),
        "ragged": dict(B=1, H=1, G=3, SQ=77, SK=77, D=40, causal=True),
        "tiny": dict(B=1, H=1, G=1, SQ=3, SK=2, D=8),
        "one": dict(B=1, H=1, G=1, SQ=1, SK=1, D=16, causal=True),
        "decode": dict(B=2, H=2, G=4, SQ=1, SK=300, D=64),
        "zero": dict(B=0, H=2, G=1, SQ=16, SK=16, D=32),
        "long": dict(B=1, H=1, G=1, SQ=16, SK=3000, D=32),
        "wide_head": dict(B=1, H=1, G=1, SQ=64, SK=100, D=256),
        "unaligned": dict(B=1, H=1, G=2, SQ=65, SK=129, D=33, causal=True, scale=0.2),
    },
    torch="F.scaled_dot_product_attention(q.flatten(1, 2), k, v, is_causal=causal, scale=scale, enable_gqa=True)"
    ".unflatten(1, q.shape[1:3])",
)
def attention(
    q: pk.Tensor["B", "H", "G", "SQ", "D"],
    k: pk.Tensor["B", "H", "SK", "D"],
    v: pk.Tensor["B", "H", "SK", "D"],
    causal: bool = False,
    scale: float | None = None,
):
    """softmax(q k^T * scale) v, where each of H key heads serves a group of G query heads.

    ``causal`` lets query i see the keys 0 to i, as PyTorch's ``is_causal``; ``scale`` is 1 / sqrt(D) unless given.
    """
    factor = pk.rsqrt(pk.size(q.shape[-1], pk.f32)) if scale is None else scale
    scores = pk.einsum("bhgqd,bhkd->bhgqk", q, k, dtype=pk.f32) * factor
    if causal:
        scores = pk.where(pk.tri(q.shape[-2], k.shape[-2]), scores, -math.inf)
    weights = pk.cast(pk.softmax(scores), v.dtype)
    return pk.einsum("bhgqk,bhkd->bhgqd", weights, v)
