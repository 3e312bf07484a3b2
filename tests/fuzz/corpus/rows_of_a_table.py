"""Rows picked by numbers of which some are outside, normalised where they are loaded: no language had a rule for it."""
# case: {"dims": {"V": 11, "D": 70, "T": 37}, "dtype": "f32", "stages": ["integers"]}
# case: {"dims": {"V": 11, "D": 64, "T": 5}, "dtype": "bf16", "stages": ["integers"], "open": ["V", "T"]}
# case: {"dims": {"V": 1, "D": 3, "T": 2}, "dtype": "bf16", "stages": ["integers"]}
# case: {"dims": {"V": 0, "D": 3, "T": 2}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(table: pk.Tensor["V", "D"], ids: pk.Tensor["T", pk.i32], more: pk.Tensor["T", pk.i64], w: pk.Tensor["D"]):
    x = pk.cast(pk.take(table, ids, fill=0.25) + table[more], pk.f32)
    return pk.cast(x * pk.rsqrt(pk.mean(x * x, axis=-1, keepdims=True) + 1e-6), w.dtype) * w
