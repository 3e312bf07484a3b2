"""As above, by default schedules of their own sizes."""
# case: {"dims": {"M": 20, "N": 2, "K": 1, "B": 17}, "dtype": "f32", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N"], k: pk.Tensor["K", "N"], v: pk.Tensor["K", "N"], w: pk.Tensor["N", "B"], w2: pk.Tensor["N", "K"]):
    kv = pk.matmul(pk.swapaxes(k, -1, -2), v, dtype=pk.f32)
    a = q @ (kv * 0.1)
    b = pk.softmax(a, axis=1)
    c = (1.0 - b) @ (pk.sigmoid(w))
    d = q @ w2
    return c, d
