"""Attention walked in parts, and the kernel that joins them with a tile over the batch, which the walk takes one by one."""
# case: {"dims": {"B": 14, "M": 3, "K": 384, "D": 2}, "dtype": "bf16", "stages": ["integers", "nonfinite"], "chosen": {"pallas:v5e": ["b=1,m=16,k2=128,d=128,d2=128,stages=1,warps=4,split_k=2", "b=16,m=1,d2=128"], "triton:sm_90": ["b=1,m=16,k2=32,d=16,d2=16,stages=1,warps=4,split_k=2", "b=16,m=1,d2=2,warps=4,stages=1"], "numba:cpu": ["b=1,m=16,k2=32,d=2,d2=2,stages=1,warps=4,split_k=2", "b=4,m=1,d2=2"]}}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["B", "M", "D"], k: pk.Tensor["B", "K", "D"], v: pk.Tensor["B", "K", "D"]):
    p = pk.softmax(pk.einsum("bid,bjd->bij", q, k, dtype=pk.f32))
    return pk.einsum("bij,bjd->bid", pk.cast(p, v.dtype), v)
