"""A product that sums over an axis of one element, which another array has as well: its epilogue read that one out of the
loop."""
# case: {"dims": {"M": 1, "N": 16, "K": 16}, "dtype": "bf16", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N"], k: pk.Tensor["M", "N"], v: pk.Tensor["M", "K"]):
    p = pk.softmax(pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32))
    b = pk.cast(p, v.dtype) @ v
    return b, pk.einsum("mn,mk->mnk", b, p)
