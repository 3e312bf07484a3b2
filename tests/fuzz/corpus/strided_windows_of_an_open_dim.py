"""C++ did not compile and HIP was wrong: whether windows stay inside an open dim was not known, and then rows were pixels."""

import portakern as pk

# case: {"dims": {"M": 1, "N": 2, "K": 1, "B": 1}, "dtype": "f32", "open": ["M", "N", "K", "B"], "stages": ["integers"]}
# case: {"dims": {"M": 2, "N": 11, "K": 5, "B": 9}, "dtype": "bf16", "open": ["M", "N"], "stages": ["integers"]}


@pk.operator
def op(x: pk.Tensor["M", "2*N", "K"], w: pk.Tensor[3, "K", "B"]):
    return pk.conv(x, w, stride=3)
