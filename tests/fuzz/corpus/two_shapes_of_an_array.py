"""An array that one kernel saw in two shapes was refused."""
# case: {"dims": {"M": 6, "N": 10}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    return x + pk.reshape(x, (x.shape[1], x.shape[0])).T
