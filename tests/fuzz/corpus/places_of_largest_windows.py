"""Where a window is largest.

On TPUs (Pallas) the walk over its maximum was written inside of the walk that looks for its place, and ended with a KeyError.  In
Triton the place became an i64 where a dim is open, which a loop must not carry as the i32 that it began with.
"""
# case: {"dims": {"M": 4, "N": 15, "K": 8}, "dtype": "f32", "open": ["N"], "stages": ["steep", "integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor[2, "M", "N", "K"]):
    return pk.max_pool(x, (2, 3), indices=True)[1]
