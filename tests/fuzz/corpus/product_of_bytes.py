"""Sums over the lanes of products of bytes: the compiler for AMD GPUs added the number of the lanes' exchange."""
# case: {"dims": {"M": 24, "N": 160}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", pk.u8], y: pk.Tensor["N", "M", pk.u8]):
    return pk.matmul(x, y, dtype=pk.i32)
