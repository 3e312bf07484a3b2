"""compile-block-shape on Pallas: a block of windows held 32 of 160 lanes, since they are rows of what is stored."""
# case: {"dims": {"M": 160, "N": 20}, "dtype": "f32", "stages": ["integers"], "chosen": {"pallas:v5e": ["m=160,d1=1,d2=128,stages=2,warps=1", "m=32,od1=128,kd1=1,kd2=1,stages=2,warps=1"]}}
# case: {"dims": {"M": 160, "N": 20}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "2*N", 2, 1]):
    return pk.avg_pool(x, 3, stride=2, padding=1)
