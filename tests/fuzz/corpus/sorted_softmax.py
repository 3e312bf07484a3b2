"""A sort of what is computed: where its rows went in parts, one side of its comparisons was of rounded sums, and no element
was its own equal."""
# case: {"dims": {"M": 24, "N": 2, "K": 65}, "dtype": "bf16", "params": {"eps": 0.001}, "stages": ["small"], "schedule": 369, "layout": 369}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "2*N"], w: pk.Tensor["2*N", "K"], eps: float = 1e-05):
    a = pk.sort(pk.softmax(x), descending=True)
    b = pk.cumsum(a, axis=-1)
    xf = pk.cast(a, pk.f32)
    d = xf - pk.mean(xf, axis=-1, keepdims=True)
    v = pk.mean(d * d, axis=-1, keepdims=True)
    c = d * pk.rsqrt(v + eps)
    return (b + 2.0) @ (1.0 - w), pk.einsum("mn,kb->mnkb", c, v)
