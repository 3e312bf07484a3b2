"""pallas: "a store to part of t0", "the array out0, written by two kernels"."""
# case: {"dims": {"M": 5, "N": 37}, "dtype": "f32"}
# case: {"dims": {"M": 3, "N": 130}, "dtype": "bf16", "open": ["M"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    a = pk.flip(pk.exp(x), 1)
    b = pk.cumsum(x, 1)
    alternating = pk.reshape(pk.stack([a, y], 2), (x.shape[0], 2 * x.shape[1]))
    last = pk.associative_scan(lambda left, right: pk.maximum(left, right), y, 1, reverse=True)
    return alternating, pk.concat([pk.flip(b, 1), y], 1), pk.pad(last, ((1, 0), (2, 3)), value=7.0)
