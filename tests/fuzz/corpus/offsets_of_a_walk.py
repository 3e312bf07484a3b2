"""Triton's interpreter: the counter of a loop is a number of Python, which has no `.to`."""
# case: {"dims": {"M": 257, "N": 17, "K": 63}, "dtype": "bf16", "open": ["K"], "stages": ["constant"], "chosen": {"triton:sm_90": ["m=64,k=32,d1=32,stages=2,warps=4,descriptors=1,group_m=1,pack=m,split_k=2", "m_out=4,k_out=512,stages=1,warps=4"]}}

import portakern as pk


@pk.operator
def op(y: pk.Tensor["M", "2*N"], z: pk.Tensor["M", "2*N"], w: pk.Tensor["2*N", "K"]):
    return (z * y) @ w
