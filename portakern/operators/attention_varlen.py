"""Attention over sequences of any length (variable-length attention of Dao et al. 2022)."""

import math

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(B=4, H=2, G=2, SQ=64, SK=256, D=64, causal=True),
        "full": dict(B=3, H=2, G=1, SQ=128, SK=192, D=64),
        "ragged": dict(B=3, H=1, G=3, SQ=37, SK=77, D=40, causal=True),
        "tiny": dict(B=2, H=1, G=1, SQ=3, SK=2, D=8),
        "one": dict(B=1, H=1, G=1, SQ=1, SK=1, D=16),
        "decode": dict(B=5, H=2, G=4, SQ=1, SK=300, D=64),
        "zero": dict(B=0, H=2, G=1, SQ=16, SK=16, D=32),
        "long": dict(B=2, H=1, G=1, SQ=16, SK=2001, D=32),
        "unaligned": dict(B=2, H=1, G=2, SQ=65, SK=129, D=33, causal=True),
    },
    inputs={"lengths": pk.Integers(1, "SK+1")},
)
def attention_varlen(
    q: pk.Tensor["B", "H", "G", "SQ", "D"],
    k: pk.Tensor["B", "H", "SK", "D"],
    v: pk.Tensor["B", "H", "SK", "D"],
    lengths: pk.Tensor["B", pk.i32],
    causal: bool = False,
):
    """softmax(q k^T / sqrt(D)) v over the first lengths[b] keys of sequence b, each key head serving G query heads.

    With ``causal`` the queries are the last SQ places of their sequence: query i sees keys up to i + lengths[b] - SQ.  A query
    that sees no key gives NaN.  A kernel walks the keys up to the length of its sequence.
    """
    scores = pk.einsum("bhgqd,bhkd->bhgqk", q, k, dtype=pk.f32) * pk.rsqrt(pk.size(q.shape[-1], pk.f32))
    key, length = pk.iota(scores.shape, -1), lengths[:, None, None, None, None]
    seen = key < length
    if causal:
        seen = seen & (key <= pk.iota(scores.shape, -2) + length - q.shape[-2])
    scores = pk.where(seen, scores, -math.inf)
    return pk.einsum("bhgqk,bhkd->bhgqd", pk.cast(pk.softmax(scores), v.dtype), v)
