"""A product whose drawn tile is shorter than what tl.dot sums: Triton did not compile it."""
# case: {"dims": {"M": 31, "N": 1}, "dtype": "f32", "stages": ["integers", "nonfinite"], "schedule": 894}

import portakern as pk


@pk.operator
def op(x: pk.Tensor[2, "M"], w: pk.Tensor["M", "N"]):
    return x @ w
