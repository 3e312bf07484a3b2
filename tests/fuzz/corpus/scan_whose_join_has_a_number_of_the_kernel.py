"""defect on Pallas: equal constants of a kernel and of the function that a scan joins by were merged, so that it was no function."""
# case: {"dims": {"M": 1, "N": 65}, "dtype": "bf16", "open": ["M"], "stages": ["integers", "tiny"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["N"], z: pk.Tensor["M", "N", pk.bf16]):
    a = pk.cumsum(x, axis=0, reverse=True, exclusive=True)
    b = a > y
    c = pk.associative_scan(lambda l, r: (pk.where(r[1] > 0.0, r[0], l[0]), pk.maximum(l[1], r[1])), (x, pk.cast(z > 0.5, z.dtype)), 0, reverse=True)[0]
    d = c * (pk.arange(2 * c.shape[1], pk.f32)[1::2] * 0.01 + 1.0)
    return b, d
