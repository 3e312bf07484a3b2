"""An attention over scores that are rounded: the walk took the exponentials of the unrounded ones."""
# case: {"dims": {"D": 70, "E": 20, "F": 13}, "dtype": "bf16", "stages": ["integers", "nonfinite"]}

import portakern as pk


@pk.operator
def op(q: pk.Tensor["D", "E"], k: pk.Tensor["F", "E"], v: pk.Tensor["F", "E"]):
    return pk.cast(pk.softmax(pk.matmul(q, pk.swapaxes(k, -1, -2))), v.dtype) @ v
