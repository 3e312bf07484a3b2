"""incorrect on cuda:h200: a tile with nothing but -1e30 made its rows NaN, by the rounding of their own maximum times log2 e.

The largest negative numbers are usual as masks, and -3e38 times log2 e is beyond f32.
"""
# case: {"dims": {"M": 150, "N": 32}, "dtype": "bf16", "open": ["M"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N"], k: pk.Tensor["M", "N"], v: pk.Tensor["M", "N"]):
    s = pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32)
    seen = pk.arange(s.shape[-1])[None, :] >= pk.arange(s.shape[-2])[:, None]
    a = pk.cast(pk.softmax(pk.where(seen, s * 0.125, -1e30)), v.dtype) @ v
    t = pk.matmul(k, pk.swapaxes(q, -1, -2), dtype=pk.f32)
    b = pk.cast(pk.softmax(t * 0.125 + pk.where(seen, 0.0, -3e38)), v.dtype) @ v
    r = pk.matmul(v, pk.swapaxes(k, -1, -2), dtype=pk.f32)
    c = pk.cast(pk.softmax(pk.where(seen, r, -1e30) * 0.3), v.dtype) @ q
    return a, b, c
