"""missing-rule on Pallas: lines that are sorted side by side were cut into blocks of fewer than 128."""
# case: {"dims": {"M": 9, "N": 20, "K": 300}, "dtype": "bf16", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", "K"]):
    return pk.sort(x, 0), pk.argsort(x, 1), pk.topk(x, 2, 0)[0]
