"""Exponentials that a device flushes to zero, compared with zero in the operand of a product: the judge took its own side."""
# case: {"dims": {"M": 33, "N": 20}, "dtype": "f32", "stages": ["steep"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["2*M", "M"], y: pk.Tensor["M", "N"]):
    m = pk.max(y, axis=1, keepdims=True)
    e = pk.exp(y - m)
    a = e / (pk.sum(e, axis=1, keepdims=True) + 1.0)
    return (1.0 - x) @ (pk.cast(a <= 0.0, a.dtype))
