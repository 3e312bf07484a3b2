"""What attention makes is stored among pads, and its features are open, so that it is lowered apart: the parts lost the
array that the result is a piece of."""
# case: {"dims": {"M": 3, "N": 6, "K": 5, "B": 2}, "dtype": "bf16", "open": ["K"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "N", "K"], k: pk.Tensor["M", "N", "K"], v: pk.Tensor["M", "N", "K"], w: pk.Tensor["B", "N", 3]):
    s = pk.matmul(q, pk.swapaxes(k, -1, -2))
    b = pk.softmax(s * 0.125) @ v
    return pk.conv(b, w, stride=2, padding=3, layout="NCHW")
