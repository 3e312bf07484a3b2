"""compile on numba:cpu: a loop on several cores took an array without dims for a number."""
# case: {"dims": {"M": 31, "N": 24, "K": 4}, "dtype": "f32", "open": ["K"], "stages": ["tiny", "small"], "schedule": 390}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["3*M", "N"], w: pk.Tensor[1, "K"], bias: pk.Tensor["K"]):
    a = pk.mean(x, axis=None, keepdims=True)
    b = a @ w
    c = b + bias
    return pk.silu(c)
