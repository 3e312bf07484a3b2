"""incorrect on CUDA C++: a thread that adds up one window read the first one, where windows reach past the array's end."""
# case: {"dims": {"K": 3, "M": 2}, "dtype": "f32", "stages": ["integers"], "chosen": {"cuda:sm_80": ["m=1,k=1,od1=1,od3=1,kd1=1,kd2=1,kd3=1,stages=1,warps=1"]}}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["K", 8, 3, 8, "M"]):
    return pk.avg_pool(x, 3, ceil=True)
