"""Pallas: an index that is cast to f16, which a TPU lacks, ended in a KeyError."""
# case: {"dims": {"M": 16, "N": 15, "K": 65}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], index: pk.Tensor["M", "K", pk.i32], y: pk.Tensor["M", "K", pk.boolean]):
    return pk.where(y, pk.cast(index, pk.f16) * 0.1, pk.take_along(x, index, axis=1))
