"""Positions counted from an open dim's end: the size took the array for a size and refused it."""
# case: {"dims": {"M": 6}, "dtype": "f32", "open": ["M"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M"]):
    return pk.take(x, x.shape[0] - pk.arange(x.shape[0])) + (x.shape[0] - x)
