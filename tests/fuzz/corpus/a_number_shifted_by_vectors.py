"""OpenCL: a line longer than a tile sorts: the lengths of its runs are a number shifted by numbers that lie in vectors."""
# case: {"dims": {"M": 4099}, "dtype": "f32", "stages": ["integers", "large"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M"]):
    return pk.argsort(pk.round(x))
