"""wrong on numba: an outer loop keeps the sums of columns in an array, which the loop inside takes column by column as a
variable and never stored."""
# case: {"dims": {"M": 5, "N": 3, "K": 4, "B": 6}, "dtype": "f32", "stages": ["integers"], "layout": 9}
# case: {"dims": {"M": 5, "N": 3, "K": 4, "B": 6}, "dtype": "f32", "stages": ["integers"], "layout": 26}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "K", "B", "N"]):
    return pk.sum(x, axis=(0, 1, 2))
