"""CUDA (sm_90a): wrong gradients: wgmma took the operands of one product for what those of another one in its accumulator were."""
# case: {"dims": {"M": 70, "N": 65, "K": 32}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "K", pk.f16], k: pk.Tensor["N", "K", pk.f16], v: pk.Tensor["N", "K", pk.bf16]):
    s = pk.cast(pk.matmul(q, k.T), pk.f32) * 0.125
    return pk.matmul(pk.cast(pk.softmax(s), v.dtype), v, dtype=pk.f32), s


op = pk.grad(op)
