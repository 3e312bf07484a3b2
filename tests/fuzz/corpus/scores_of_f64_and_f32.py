"""HIP on CDNA: wrong gradients: products of f64 and of f32 met in one accumulator, whose rows the f64 unit writes four apart."""
# case: {"dims": {"M": 70, "N": 65, "K": 32}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "K", pk.f64], k: pk.Tensor["N", "K", pk.f64], v: pk.Tensor["N", "K", pk.f32]):
    s = pk.cast(pk.matmul(q, k.T), pk.f32) * 0.125
    return pk.matmul(pk.cast(pk.softmax(s), v.dtype), v, dtype=pk.f32), s


op = pk.grad(op)
