"""An array that meets itself along two axes through a transpose that both operands share: an error about the order of dims."""
# case: {"dims": {"M": 28, "N": 5}, "dtype": "f32"}
# case: {"dims": {"M": 17, "N": 1}, "dtype": "bf16", "open": ["M"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    return pk.einsum("mn,kn->mnk", x, x)
