"""Pallas: a part of a reduction that begins beyond the end of the array took a block that is not there."""
# case: {"dims": {"M": 3, "N": 63, "K": 13}, "dtype": "f32", "open": ["M"], "stages": ["nonfinite", "sparse"], "schedule": 129, "twin": true}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor[2, "K", "N"]):
    a = (pk.abs(x) + 1.0) ** 0.5
    b = a * (pk.arange(2 * a.shape[0], pk.f32)[1::2][:, None] * 0.01 + 1.0)
    c = pk.argmax(b, axis=1)
    d = pk.cast(pk.clip(y, -90.0, 90.0), pk.i32)
    return c, d
