"""pallas: "the block (3, 15) of args[0] (array (0, 15))": compiled for a dim of 1, since an array of given size was large."""
# case: {"dims": {"M": 17, "N": 15, "K": 2, "D": 63, "E": 64}, "dtype": "f32", "open": ["M"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], z: pk.Tensor["K", "D", "E", "K"]):
    return x[1:4], pk.min_pool(z, 2, stride=1, padding=1)
