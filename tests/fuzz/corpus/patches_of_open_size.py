"""pallas: "Mosaic cannot compile the kernel: Not implemented: Sublane broadcast", by choices of 16 bits of what was cut into steps.

Each of the twelve elements of a patch that lies in one block was a block of its own as well.
"""
# case: {"dims": {"M": 1, "N": 16, "K": 96, "B": 160}, "dtype": "bf16", "open": ["K", "M"], "schedule": 724}
# case: {"dims": {"M": 2, "N": 9, "K": 37, "B": 7}, "dtype": "bf16", "open": ["K"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K", 3], w: pk.Tensor[4, 4, 3, "B"]):
    a = pk.conv(x, w, stride=4)
    return a.reshape(a.shape[0], -1, a.shape[3])
