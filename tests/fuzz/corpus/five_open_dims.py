"""numba: arrays of examples, which say what kernels are called with, had 61 elements or more along each open dim: gigabytes."""
# case: {"dims": {"A": 2, "B": 3, "C": 1, "D": 5, "E": 4}, "dtype": "f32", "open": ["A", "B", "C", "D", "E"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["A", "B", "2*C", "D", "E"]):
    return pk.sum(x, axis=-1), -x
