"""compile-mosaic on Pallas: bf16 rows that a tap has shifted, masked at a ragged end of the channels."""
# case: {"dims": {"M": 32, "N": 6, "K": 5, "B": 2, "D": 7}, "dtype": "bf16", "open": ["N", "K", "D"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(y: pk.Tensor["N", "K", "B", "D"], w: pk.Tensor["M", "K", 2, 2]):
    return pk.conv(y, w, stride=2, layout="NCHW")
