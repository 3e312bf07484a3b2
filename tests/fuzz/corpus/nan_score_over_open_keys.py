"""Pallas interpreted on a CPU: XLA drops a NaN within an exponential of a larger loop."""
# case: {"dims": {"M": 31, "N": 17, "D": 4}, "dtype": "bf16", "open": ["N"], "stages": ["nonfinite"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "D"], k: pk.Tensor["N", "D"], v: pk.Tensor["N", "D"]):
    return pk.softmax(q @ k.T) @ v
