"""Pallas and Triton: a product with batch dims inside a tile: each row of what is not stored was multiplied with a matrix of its own."""
# case: {"dims": {"B": 3, "I": 70, "J": 40, "K": 5, "Z": 9}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["B", "I", "K"], k: pk.Tensor["B", "J", "K"], w: pk.Tensor["I", "J", "Z"]):
    return pk.einsum("bij,ijz->biz", pk.tanh(pk.einsum("bik,bjk->bij", q, k)), w)
