"""Pallas failed with an error of its schedule where a line is picked from in the order of another one, which it sorts."""
# case: {"dims": {"M": 2, "N": 5}, "dtype": "f32", "stages": ["nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["M", "N"]):
    return pk.take_along(y, pk.argsort(x, axis=-1), axis=-1)
