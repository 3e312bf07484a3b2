"""compile on triton with Triton 3.6: a loop's running maximum or sum of what it loads, used by two."""
# case: {"dims": {"M": 3, "N": 24}, "dtype": "f32", "open": ["M", "N"], "schedule": 299, "stages": ["nonfinite"]}
# case: {"dims": {"M": 8, "N": 512}, "dtype": "f32", "chosen": {"triton:sm_90": ["m=4,n=128,stages=2,warps=2"]}, "stages": ["nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    top, total = pk.max(x, axis=-1), pk.sum(x, axis=-1)
    return top, total, pk.exp(x - top[:, None]), x * total[:, None]
