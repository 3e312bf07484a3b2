"""Attention in f64 whose scores are asked in f32: f64 and f32 met in one operation."""
# case: {"dims": {"M": 17, "N": 5, "D": 3}, "dtype": "f64", "stages": ["integers", "nonfinite"]}
# case: {"dims": {"M": 17, "N": 5, "D": 3}, "dtype": "f16", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "D"]):
    return pk.softmax(pk.matmul(q, k.T, dtype=pk.f32)) @ v
