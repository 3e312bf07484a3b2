"""compile-trace on Pallas: the first columns of rows two to a line, where a window moves along rows alone."""
# case: {"dims": {"M": 3, "N": 1, "K": 5, "B": 2, "D": 8}, "dtype": "bf16", "open": ["D", "M"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K", "2*B"], w: pk.Tensor["D", "N", 3, 3]):
    return pk.conv(x, w, stride=2, layout="NCHW")
