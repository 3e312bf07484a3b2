"""Outputs of one shape that share no axes got a grid over the axes of both."""
# case: {"dims": {"M": 20, "K": 20, "N": 30}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(a: pk.Tensor["M", "N"], b: pk.Tensor["K", "N"]):
    return pk.relu(a), pk.relu(b)
