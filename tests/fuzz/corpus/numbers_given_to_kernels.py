"""Scalars of every kind: Triton's interpreter kept them Python's, without a dtype."""
# case: {"dims": {"M": 3, "N": 5}, "dtype": "f32"}
# case: {"dims": {"M": 3, "N": 5}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], a: pk.Scalar[pk.f32], n: pk.Scalar[pk.i32]):
    return pk.cast(pk.exp(a), pk.bf16) * x, pk.sum(x, axis=-1) * a, pk.cast(n, pk.f32) + x
