"""compile on numba:cpu, ir on all: the bits of f16 and bf16, which are float32 while they are computed with, and bits as those."""
# case: {"dims": {"M": 32}, "dtype": "f32", "stages": ["steep", "integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor[3, "M", pk.f16], y: pk.Tensor[3, "M", pk.bf16], z: pk.Tensor[3, "M", pk.i16], w: pk.Tensor["M"]):
    exponent = pk.cast(pk.bitcast(x, pk.i16), pk.i32) >> 10, pk.bitcast(y * 2, pk.i16) + 1
    whole = pk.bitcast(z & 0x3FFF, pk.f16) * 2, pk.bitcast(z & 0x3FFF, pk.bf16), pk.bitcast(pk.cast(w, pk.f32), pk.i32) & 3
    return *exponent, *whole, pk.bitcast(x, pk.bf16)
