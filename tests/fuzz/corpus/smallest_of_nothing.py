"""refused on every target as "no lowering of arg_fold yet": argmin along a dim of 0 elements, of no lines or of some."""
# case: {"dims": {"M": 0}, "dtype": "f32", "stages": ["integers"]}
# case: {"dims": {"M": 3}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["2*M", "M"], y: pk.Tensor[3, "M"]):
    return pk.argmin(x.T, axis=0), y
