"""compile on triton with Triton 3.6: a loop that scans what it loads, tile by tile."""
# case: {"dims": {"M": 3, "N": 33, "K": 40}, "dtype": "f32", "stages": ["integers"], "schedule": 135}
# case: {"dims": {"M": 8, "N": 2, "K": 512}, "dtype": "f32", "chosen": {"triton:sm_90": ["m_n=16,k=128,stages=1,warps=4"]}, "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"]):
    return pk.cummin(x, axis=2)
