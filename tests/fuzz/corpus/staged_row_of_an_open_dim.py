"""HIP, and every language whose copies take no coordinates: an operand of a product that is row 0 of an array with an open dim,
which may have none, was copied by a call that the library does not have (seed 29112801, hip:gfx1201)."""
# case: {"dims": {"M": 3, "N": 7, "K": 33, "B": 1}, "dtype": "bf16", "open": ["B", "N"], "stages": ["integers", "nonfinite"], "schedule": 355, "layout": 355}

import portakern as pk


@pk.operator
def op(updates: pk.Tensor["M", "N", pk.bf16], x: pk.Tensor["N", "K", "K", pk.f32], w: pk.Tensor["K", "B", pk.bf16], u: pk.Tensor["B", "B"]):
    a = pk.scan(lambda h_, x_: (pk.softmax(h_ + x_, axis=-1), h_), pk.zeros(updates.shape[1:], updates.dtype), updates[:3])[1]
    m = pk.max(x, axis=-1, keepdims=True)
    e = pk.exp(x - m)
    total = pk.sum(e, axis=-1, keepdims=True)
    b = e / total
    c = pk.scan(lambda h_, x_: (pk.tanh(x_ @ w + h_ @ u), pk.tanh(x_ @ w + h_ @ u)), pk.zeros((b.shape[1], w.shape[1]), b.dtype), b[:1])[1]
    return b, a, c
