"""CUDA C++: a sum in two parts of one step each, a loop that 64 bits counted: NVRTC crashed over it."""
# case: {"dims": {"K": 160, "B": 13}, "dtype": "bf16", "stages": ["integers"], "schedule": 2}

import portakern as pk


@pk.operator
def op(y: pk.Tensor["K", 3, "2*B"], w: pk.Tensor[6, 1, 2]):
    return pk.conv(y, w, stride=3, groups=3, layout="NCHW")
