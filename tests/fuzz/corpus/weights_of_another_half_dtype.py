"""CUDA (sm_90a): no compilation: weights of scores of f16 products, rounded to bf16, were no operand of wgmma."""
# case: {"dims": {"S": 128, "L": 512, "D": 64}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["S", "D", pk.f16], k: pk.Tensor["L", "D", pk.f16], v: pk.Tensor["L", "D", pk.bf16]):
    s = pk.sigmoid(pk.matmul(q, k.T, dtype=pk.f32) * 0.1)
    return pk.matmul(pk.cast(s, pk.bf16), v, dtype=pk.f32)
