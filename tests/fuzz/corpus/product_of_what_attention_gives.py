"""All languages: a product that attention gives was to be computed again by the product that takes it, too."""
# case: {"dims": {"M": 37, "N": 257, "K": 17}, "dtype": "bf16", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N"], k: pk.Tensor["K", "N"], v: pk.Tensor["K", "N"], w: pk.Tensor["N", 4]):
    b = pk.cast(pk.softmax(pk.matmul(q, pk.swapaxes(k, -1, -2)) * 0.125), v.dtype) @ v
    return pk.argmax(pk.round(pk.matmul(b, w, dtype=pk.f32)), axis=0)
