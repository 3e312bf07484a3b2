"""pallas:v6e: compiling ended its process by SIGABRT

With many images open dims were compiled for 1, which leaves less than nothing of a window.
"""
# case: {"dims": {"M": 144, "N": 9, "K": 5}, "dtype": "f32", "open": ["K"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K", 3], w: pk.Tensor[3, 3, 1, 3]):
    return pk.conv(x, w, groups=3)
