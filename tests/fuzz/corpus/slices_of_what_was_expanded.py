"""A slice of an expanded array is one of the array itself, along the dims that it has with more than one element."""
# case: {"dims": {"M": 5, "N": 9}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", 1], y: pk.Tensor["N"]):
    a = pk.broadcast_to(x, (x.shape[0], 9))[1:, ::2]
    b = pk.broadcast_to(y, (7, y.shape[0]))[2:, 1:]
    c = pk.broadcast_to(x[:, None], (x.shape[0], 6, 4))[::2, 3:, 1:]
    return a * 2.0, b, c + 1.0
