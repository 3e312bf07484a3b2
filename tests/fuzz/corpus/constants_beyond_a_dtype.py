"""Constants that are no number or beyond a dtype: C's macros are floats, C++ took a scalar for a tile, 1e300 became inff."""
# case: {"dims": {"M": 3, "N": 5}, "dtype": "f64"}
# case: {"dims": {"M": 3, "N": 5}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    return pk.sum(x), pk.where(pk.max(x) > 1e300, x, float("nan")), pk.full((), float("nan")), pk.full((), float("-inf"))
