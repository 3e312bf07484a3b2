"""An array of pieces that is a piece of an array with another fill was stored as neither."""
# case: {"dims": {"M": 1, "N": 1}, "dtype": "f32", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    a = pk.pad(x, [(0, 0), (1, 1)])
    return pk.pad(a, [(0, 0), (1, 1)], 1.5)
