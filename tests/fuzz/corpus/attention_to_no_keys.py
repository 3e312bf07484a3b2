"""An attention to an open number of keys that is 0: its result is 0, not 0 divided by the sum of no weights."""
# case: {"dims": {"M": 31, "N": 0, "D": 4}, "dtype": "f32", "open": ["N"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "D"]):
    p = pk.softmax(pk.matmul(q, pk.swapaxes(k, -1, -2), dtype=pk.f32))
    return pk.cast(p, v.dtype) @ v
