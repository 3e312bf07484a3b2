"""CUDA and AMD (gfx1201): wrong gradients, or sums nobody had written: products of f32 and of bf16 met in one accumulator, whose order of
elements was that of the first one, which no matrix unit writes."""
# case: {"dims": {"M": 70, "N": 65, "K": 32}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "K", pk.f32], k: pk.Tensor["N", "K", pk.f32], v: pk.Tensor["N", "K", pk.bf16]):
    s = pk.cast(pk.matmul(q, k.T), pk.f32) * 0.125
    return pk.matmul(pk.cast(pk.softmax(s), v.dtype), v, dtype=pk.f32), s


op = pk.grad(op)
