"""defect on Pallas: equal constants of a kernel and of the function that a scan joins by were merged, so that it was no function."""
# case: {"dims": {"M": 1, "N": 65}, "dtype": "bf16", "open": ["M"], "stages": ["integers", "tiny"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["N"], z: pk.Tensor["M", "N", pk.bf16]):
    a = pk.cumsum(x, axis=0, reverse=True, exclusive=True)
    e = a > y
    c = pk.associative_scan(lambda a, b: (pk.where(b[1] > 0.0, b[0], a[0]), pk.maximum(a[1], b[1])), (x, pk.cast(z > 0.5, z.dtype)), 0, reverse=True)[0]
    d = c * (pk.arange(2 * c.shape[1], pk.f32)[1::2] * 0.01 + 1.0)
    return e, d
