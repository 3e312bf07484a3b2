"""A product of f32 behind one of bf16 by warpgroups in one CUDA C++ text, which had the words of only one of them."""
# case: {"dims": {"S": 64, "D": 64, "E": 64}, "dtype": "bf16"}
# case: {"dims": {"S": 33, "D": 17, "E": 9}, "dtype": "f16"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["S", "D"], k: pk.Tensor["S", "D"], v: pk.Tensor["S", "E"]):
    kv = pk.einsum("sd,se->de", k, v, dtype=pk.f32)
    return pk.cast(pk.matmul(pk.cast(q, pk.f32), kv), q.dtype)
