"""A product of what an earlier kernel stored, along an open axis: clang dropped the wait before the barrier at the head of the
loop on AMD, so a wave read what another one had not written to LDS yet."""
# case: {"dims": {"M": 128, "N": 96}, "dtype": "bf16", "open": ["N"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], w: pk.Tensor["N", "N"]):
    return pk.matmul((x @ w) * 0.1, x.T)
