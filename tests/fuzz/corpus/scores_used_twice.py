"""The scores of an attention, used with another array, too: "contract cannot be computed inside an elementwise region"."""
# case: {"dims": {"M": 28, "D": 5}, "dtype": "f32"}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["M", "D"], k: pk.Tensor["M", "D"], v: pk.Tensor["M", "D"], y: pk.Tensor["M"]):
    s = q @ k.T
    return pk.softmax(s) @ v, s * y[:, None]
