"""incorrect on opencl:cpu: the lanes of a comparison were negated before it was made, when it was stored as it stands."""
# case: {"dims": {"M": 12, "N": 128}, "dtype": "f32"}
# case: {"dims": {"M": 1, "N": 2}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    return x < 0.5, (x < 0.5) ^ (x > -0.5), pk.where(x > 0, x < 1, x > -1)
