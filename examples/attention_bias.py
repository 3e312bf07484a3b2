"""Attention with a position bias and a soft cap on the scores, as the library's attention does not have.

portakern check examples/attention_bias.py:attention_bias --targets numba:cpu
"""

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(B=1, H=2, S=128, D=64),
        "ragged": dict(B=1, H=3, S=77, D=40),
        "tiny": dict(B=1, H=1, S=3, D=8),
        "one": dict(B=1, H=1, S=1, D=16),
        "zero": dict(B=0, H=2, S=16, D=32),
        "long": dict(B=1, H=1, S=600, D=16),
    },
)
def attention_bias(
    q: pk.Tensor["B", "H", "S", "D"],
    k: pk.Tensor["B", "H", "S", "D"],
    v: pk.Tensor["B", "H", "S", "D"],
    slope: pk.Tensor["H", pk.f32],
    cap: float = 30.0,
):
    """softmax(cap * tanh(q k^T / sqrt(D) / cap) - slope * distance) v, each head with its own slope (ALiBi)."""
    scores = pk.einsum("bhqd,bhkd->bhqk", q, k, dtype=pk.f32) * pk.rsqrt(pk.size(q.shape[-1], pk.f32))
    place = pk.arange(q.shape[2], pk.f32)
    distance = pk.abs(place[:, None] - place[None, :])
    biased = cap * pk.tanh(scores / cap) - slope[:, None, None] * distance
    return pk.einsum("bhqk,bhkd->bhqd", pk.cast(pk.softmax(biased), v.dtype), v)
