"""Exponentials divided by an array that may hold 0, where 0 / 0 is NaN: the product was divided in their place."""
# case: {"dims": {"M": 2, "N": 24, "K": 24}, "dtype": "bf16", "stages": ["integers", "zeros"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N", "K"], k: pk.Tensor["M", "N", "K"], v: pk.Tensor["M", "N", "K"], total: pk.Tensor["M", "N", 1, pk.f32]):
    s = pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32)
    a = pk.where(pk.arange(s.shape[-1])[None, :] < pk.arange(s.shape[-2])[:, None] + 17, s * 0.125, -1e30)
    e = pk.exp(a - pk.max(a, axis=-1, keepdims=True))
    return (e / total) @ v
