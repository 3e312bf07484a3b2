"""A flip of a reshape was taken for a transpose without sides: IndexError from inside schedules."""
# case: {"dims": {"M": 6, "N": 10}, "dtype": "f32"}
# case: {"dims": {"M": 6, "N": 10}, "dtype": "f32", "open": ["M", "N"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    m, n = x.shape
    return pk.flip(pk.reshape(x, (n, m)), 1)
