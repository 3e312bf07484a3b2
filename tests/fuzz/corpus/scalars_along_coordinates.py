"""A result made of a scalar and coordinates alone: "a block must end in a yield", without a line."""
# case: {"dims": {"M": 65}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M"]):
    return pk.sum(x) * pk.arange(x.shape[0], pk.f32)
