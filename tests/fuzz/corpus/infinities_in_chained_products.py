"""The judge called correct kernels wrong: of a sum of NaN-or-anything and -inf it was certain (linear attention)."""

import portakern as pk

# case: {"dims": {"S": 9, "D": 5, "E": 6}, "dtype": "f32"}


@pk.operator
def op(q: pk.Tensor["S", "D"], k: pk.Tensor["S", "D"], v: pk.Tensor["S", "E"]):
    return q @ (pk.transpose(k) @ v)
