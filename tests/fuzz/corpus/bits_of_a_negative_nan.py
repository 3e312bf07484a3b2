"""incorrect on numba: a NaN of bf16 lost its sign on the way to its bits."""
# case: {"dims": {"M": 1, "N": 101, "K": 1}, "dtype": "bf16", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K", "N", pk.bf16]):
    return pk.cast(pk.bitcast(x, pk.i16), pk.i32) >> 7
