"""pallas:v6e: "the index ok + 2*kk of x on a tiled axis"

The gradient of the weights sums over positions, of which there may be any number, with the taps along a tile.
"""
# case: {"dims": {"M": 1, "N": 3, "K": 24, "B": 9, "D": 31}, "dtype": "bf16", "open": ["K"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K", "B"], w: pk.Tensor[2, 2, "B", "D"]):
    return pk.conv(x, w, dilation=2)


op = pk.grad(op)
