"""A product of a product beside a dim that is called as the features of all products were: two axes had one name."""
# case: {"dims": {"D": 3, "E": 17, "F": 5}, "dtype": "f32", "open": ["D", "E"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["D", "E", "F"], k: pk.Tensor["D", "E", "F"], v: pk.Tensor["D", "E", "F"]):
    e = pk.exp(pk.minimum(pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32), 8.0))
    return pk.cast(e / pk.sum(e, axis=-1, keepdims=True), v.dtype) @ v
