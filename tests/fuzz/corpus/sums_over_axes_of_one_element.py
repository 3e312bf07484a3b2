"""Two summed axes of one element, in another order in each operand, were merged into one: IndexError."""
# case: {"dims": {"M": 33, "N": 3}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", 1, "N", 1], y: pk.Tensor[1, 1, "N"]):
    return pk.einsum("bhsd,dhe->sbe", x, y)
