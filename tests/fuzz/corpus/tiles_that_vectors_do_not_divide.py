"""SYCL: packed operands of 25 rows were written 16 rows at a time, past their end."""
# case: {"dims": {"M": 48, "N": 1, "K": 1}, "dtype": "f32", "open": ["M"], "stages": ["integers", "nonfinite"], "schedule": 892, "twin": true}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"]):
    return (pk.sigmoid(x)) @ (pk.sigmoid(w))
