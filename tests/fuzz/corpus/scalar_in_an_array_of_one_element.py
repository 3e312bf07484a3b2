"""A computed scalar, reshaped to one element: simplifying took the reshape away, and what used it was of a wrong shape."""
# case: {"dims": {"M": 65}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M"]):
    total = pk.sum(x)
    return pk.broadcast_to(pk.reshape(total + total, (1, 1)), (3, 4))
