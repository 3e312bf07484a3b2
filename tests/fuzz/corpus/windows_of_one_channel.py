"""incorrect on Pallas: of two axes of stride 1, positions were taken for the channels, and several rows came out of order."""
# case: {"dims": {"M": 1, "N": 2, "K": 1, "P": 700}, "dtype": "bf16", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "2*K", "K"], w: pk.Tensor[2, 2, "K", "P"]):
    return pk.conv(x, w, padding=2)
