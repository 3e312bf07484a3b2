"""pallas: "tiles n, m2: at most 1 parallel axes may have a tile above 1": columns below each other are for sums alone."""
# case: {"dims": {"M": 15, "N": 72}, "dtype": "bf16", "open": ["M", "N"], "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], y: pk.Tensor["M"]):
    return pk.cummin(1.0 - pk.exp(x)[..., None] * y, axis=0)
