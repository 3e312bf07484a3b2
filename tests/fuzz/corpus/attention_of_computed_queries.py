"""CUDA (sm_90a): a traceback: queries that are computed cannot be brought by the copy engine, which nobody had asked."""
# case: {"dims": {"S": 128, "L": 128, "D": 64}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["4 * S", "D"], k: pk.Tensor["L", "D"], v: pk.Tensor["L", "D"]):
    q = pk.mean(pk.reshape(x, (x.shape[0] // 4, 4, x.shape[1])), axis=1)
    return pk.softmax(q @ k.T) @ v
