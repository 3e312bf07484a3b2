"""incorrect on numba:cpu: the least i64 over -1 was 0; it wraps."""
# case: {"dims": {"M": 9}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", pk.i64], y: pk.Tensor["M", pk.i64]):
    return (x * 0 - 9223372036854775807 - 1) // -1, x // (y * y + 1)
