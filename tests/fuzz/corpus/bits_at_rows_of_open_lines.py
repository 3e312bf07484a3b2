"""compile on Triton: random bits, which count in 64 bits, at rows that one tile covers, in an array whose lines are open."""
# case: {"dims": {"M": 3, "N": 1}, "dtype": "f32", "open": ["N"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "16*N"], w: pk.Tensor["M", "16*N"]):
    return pk.dropout(pk.matmul(x, w.T, dtype=pk.f32), 0, 0.5)
