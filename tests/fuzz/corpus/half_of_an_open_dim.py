"""An offset of an open dim was taken to be outside of the array: C++ was given pixels, which it has not."""
# case: {"dims": {"M": 1, "N": 1, "K": 1}, "dtype": "f32", "stages": ["integers", "nonfinite"], "twin": true}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "2*K"]):
    a = pk.split(x, 2, -1)[1]
    return pk.max(a, axis=1)
