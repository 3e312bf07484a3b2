"""pallas:v6e: "the index ol + kl of x on a tiled axis"

Windows that no sum or maximum takes in are stored with their taps along a tile, whose positions are steps of the grid; and taps
some elements apart lie along a tile beside their positions.
"""
# case: {"dims": {"M": 2, "N": 19, "K": 25}, "dtype": "f32"}
# case: {"dims": {"M": 2, "N": 19, "K": 25}, "dtype": "bf16", "open": ["M"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"]):
    return pk.unfold(x, 3), pk.exp(pk.unfold(x, 4, stride=2, dilation=3))
