"""A Gram matrix: CUDA C++ staged one of the two operands under the other's name, and three quarters of it were wrong."""
# case: {"dims": {"M": 64, "K": 64}, "dtype": "f32"}
# case: {"dims": {"M": 33, "K": 70}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "K"]):
    return x @ x.T
