"""Rows of f16 rounded to integers and multiplied: which side of a half a number lies on depends on whether it was rounded to f16
before, and the check took sums of products of such integers for certain.  C++, numba."""
# case: {"dims": {"M": 129, "N": 40, "B": 9}, "dtype": "f16", "stages": ["small"]}

import portakern as pk


@pk.operator
def op(g: pk.Tensor["M", "N"], w: pk.Tensor["N", "B", pk.i8]):
    b = pk.cummax(1.0 - g, axis=1, reverse=True)
    top = pk.max(pk.abs(pk.cast(b, pk.f32)), axis=-1, keepdims=True) + 1e-3
    q = pk.cast(pk.round(pk.cast(b, pk.f32) / top * 127.0), pk.i8)
    return b, pk.matmul(q, w, dtype=pk.i32)
