"""wrong on CUDA C++: weights that f32 queries and keys give lie in lanes, not in fragments, and were multiplied with narrow
values as if they did."""
# case: {"dims": {"M": 40, "N": 70, "K": 32}, "dtype": "bf16", "stages": ["integers", "steep"]}
# case: {"dims": {"M": 24, "N": 100, "K": 63}, "dtype": "f16", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["N", 2, "K"], k: pk.Tensor["M", 2, "K", pk.f32], v: pk.Tensor["M", 2, "K"]):
    p = pk.softmax(pk.einsum("ihd,jhd->hij", q, k, dtype=pk.f32) * 0.125)
    return pk.einsum("hij,jhd->ihd", pk.cast(p, v.dtype), v)
