"""A stage that is taken apart forgot which of its outputs is a piece of an array, and loaded it from there."""
# case: {"dims": {"M": 15, "N": 100}, "dtype": "f32", "stages": ["integers", "nonfinite"], "twin": true}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N"], k: pk.Tensor["M", "N"], v: pk.Tensor["M", "N"], mask: pk.Tensor["M", "M", pk.boolean]):
    s = pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32)
    a = pk.where(mask, s * 0.125, -1e4)
    p = pk.softmax(a)
    b = p @ v
    z = pk.where(pk.arange(b.shape[1]) * 2 >= b.shape[1] - 1, b, -float("inf"))
    m = pk.max(z, axis=1, keepdims=True)
    e = pk.exp(z - m)
    c = pk.sum(e, axis=1)
    d = pk.pad(z, [(0, 0), (1, 1)])
    return c, d
