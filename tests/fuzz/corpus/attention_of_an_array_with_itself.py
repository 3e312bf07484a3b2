"""Keys that are the values, converted: one axis was taken for the features of the scores and of the result."""
# case: {"dims": {"M": 17, "D": 5}, "dtype": "bf16"}
# case: {"dims": {"M": 17, "D": 1}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "D"]):
    return pk.softmax(pk.matmul(x, x.T, dtype=pk.f32)) @ x
