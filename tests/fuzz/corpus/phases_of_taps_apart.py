"""A transposed convolution with taps apart: in Pallas a dim of its windows' array is two of a block."""
# case: {"dims": {"M": 2, "N": 4, "K": 3, "L": 5}, "dtype": "bf16", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"], w: pk.Tensor[3, "K", "L"]):
    return pk.conv(x, w, stride=2, dilation=2, transposed=True)
