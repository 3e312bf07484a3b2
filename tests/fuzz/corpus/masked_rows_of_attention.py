"""A row of -inf alone is NaN in its softmax; every target gave 0 where weights were not divided by their sum alone."""
# case: {"dims": {"M": 37, "N": 50, "D": 16}, "dtype": "bf16"}
# case: {"dims": {"M": 37, "N": 50, "D": 16}, "dtype": "f32", "open": ["N"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "D"], mask: pk.Tensor["M"]):
    s = pk.where(mask[:, None] > 0, pk.matmul(q, k.T, dtype=pk.f32), float("-inf"))
    m = pk.max(s, axis=1, keepdims=True)
    e = pk.exp(s - m)
    total = pk.sum(e, axis=1, keepdims=True)
    return e @ v / (1 + total), m + pk.log(total)
