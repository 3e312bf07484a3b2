"""OpenCL and SYCL: local memory was counted for elements of four bytes, and products of doubles with open dims had no room."""
# case: {"dims": {"M": 3, "N": 24, "K": 16, "B": 28, "D": 256}, "dtype": "f64", "open": ["K", "M", "N"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N", "K"], k: pk.Tensor["M", "N", "K"], v: pk.Tensor["B", "D"]):
    scores = pk.matmul(q, pk.swapaxes(k, -1, -2))
    own = pk.softmax(pk.matmul(v, v.T), axis=-1)
    return pk.softmax(scores, axis=-1), own @ v
