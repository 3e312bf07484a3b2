"""Attention of one batch and one number a head, whose weights a second result takes: the batch of one went, the copies stayed."""
# case: {"dims": {"E": 5, "D": 3}, "dtype": "f32"}
import portakern as pk


@pk.operator
def op(k: pk.Tensor[1, 1, "D", 1], v: pk.Tensor[1, 1, "D", 1], q: pk.Tensor[1, "E", "4*D", 1]):
    a = pk.repeat(k, 4, -2)
    b = pk.repeat(v, 4, -2)
    p = pk.softmax(pk.einsum("bihd,bjhd->bhij", q, a, dtype=pk.f32))
    return pk.einsum("bhij,bjhd->bihd", pk.cast(p, b.dtype), b), p * 2.0
