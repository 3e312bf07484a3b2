"""incorrect on all: the maximum was taken of products rounded to bf16, and subtracted from the same products unrounded."""
# case: {"dims": {"M": 1, "N": 20, "K": 127}, "dtype": "bf16", "open": ["M"], "stages": ["integers", "steep"]}
# case: {"dims": {"M": 3, "N": 20, "K": 127}, "dtype": "f16", "stages": ["integers", "steep"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "K"]):
    return pk.matmul(x, w, dtype=pk.f32) + pk.logsumexp(x @ w, axis=0)
