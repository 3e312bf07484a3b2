"""incorrect on every target: reductions of two arrays that only a stage before theirs ties were put into one kernel, where each
ran over both axes; so were elementwise outputs.
"""
# case: {"dims": {"M": 37, "N": 53}, "dtype": "f32"}
# case: {"dims": {"M": 37, "N": 53}, "dtype": "f32", "open": ["M"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], v: pk.Tensor["M"]):
    a = pk.sum(x, axis=1)
    b = pk.max(x, axis=1)
    s, t = pk.sum(a, axis=0), pk.sum(b, axis=0)
    u, w = pk.cumsum(a[:, None], axis=0), pk.cummax(b[None, :], axis=1)
    m, n = pk.argmax(a, axis=0), pk.argmin(b, axis=0)
    return a, b, a[:, None] * 2.0, b[None, :] + 1.0, s, t, u, w, m, n, pk.sum(a * v, axis=0) + pk.sum(b, axis=0)
