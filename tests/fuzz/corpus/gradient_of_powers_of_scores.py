"""HIP (gfx942): no compilation: a product of f32 had its sums in tiles of 32 x 32, which are those of 16 bits."""
# case: {"dims": {"S": 256, "D": 64}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["S", "D"], k: pk.Tensor["S", "D"], v: pk.Tensor["S", "D"]):
    n = q.shape[0]
    s = pk.matmul(q, k.T, dtype=pk.f32)
    s = pk.where(pk.arange(n)[:, None] >= pk.arange(n)[None, :], s * s * 0.01, 0.0)
    return pk.matmul(s, pk.cast(v, pk.f32)) / (pk.sum(s, axis=-1, keepdims=True) + 1e-2)


op = pk.grad(op)
