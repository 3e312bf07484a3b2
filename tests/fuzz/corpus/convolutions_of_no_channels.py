"""ir on C++: a convolution that sums nothing, since there are no channels."""
# case: {"dims": {"M": 1, "N": 4, "K": 6, "B": 0, "D": 2}, "dtype": "bf16", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K", "B"], w: pk.Tensor[3, 3, "B", "D"], v: pk.Tensor[3, 3, "D", "B"]):
    up = pk.conv(x, pk.transpose(v, (0, 1, 3, 2)), padding=1)
    return pk.conv(x, w, dtype=pk.f32), up
