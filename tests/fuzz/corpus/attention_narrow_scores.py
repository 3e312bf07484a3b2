"""Attention whose scores are products of narrower operands than those with the values: schedules took one dtype for both."""
# case: {"dims": {"M": 17, "N": 5, "D": 3}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "D"]):
    return pk.softmax(pk.matmul(pk.cast(q, pk.bf16), pk.cast(k, pk.bf16).T, dtype=pk.f32)) @ v
