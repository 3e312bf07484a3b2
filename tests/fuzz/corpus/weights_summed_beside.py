"""incorrect on cuda and triton: attention's exponents were scaled by log2(e) before they were shifted, which is off by 2^-24 of
the score and cancels only where weights are divided by their own sum as it is; Triton did so for weights of 32 bits as well."""
# case: {"dims": {"M": 3, "K": 13, "B": 384, "D": 16}, "dtype": "bf16", "stages": ["integers"]}
# case: {"dims": {"M": 3, "K": 13, "B": 384, "D": 16}, "dtype": "f32", "stages": ["integers", "steep"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "K", "B"], k: pk.Tensor["M", "K", "B"], v: pk.Tensor["M", "K", "D"]):
    s = pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32)
    e = pk.exp(s - pk.max(s, axis=-1, keepdims=True))
    return pk.cast(e, v.dtype) @ v / pk.sum(e, axis=-1, keepdims=True)
