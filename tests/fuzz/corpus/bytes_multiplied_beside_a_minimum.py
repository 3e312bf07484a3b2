"""Products of bytes with something added that is no sum: LLVM made a v_dot4 of both for AMD GPUs."""
# case: {"dims": {"N": 128}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["N", pk.u8], y: pk.Tensor["N", pk.u8], u: pk.Tensor["N", pk.u8], v: pk.Tensor["N", pk.u8]):
    a, b, c, d = (pk.cast(t, pk.i32) for t in (x, y, u, v))
    return a * b + pk.minimum(c * d, 100), x * y + pk.minimum(u * v, 100)
