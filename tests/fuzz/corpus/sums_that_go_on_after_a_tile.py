"""HIP did not compile a scan by a function of the operator's own whose line has several tiles: its last element is that of a
tile with rows and columns."""
# case: {"dims": {"N": 132}, "dtype": "f32", "chosen": {"hip:gfx942": ["n=64,stages=1,warps=1"], "hip:gfx1201": ["n=64,stages=1,warps=1"]}, "stages": ["nonfinite"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["N"]):
    return pk.associative_scan(lambda left, right: left + right, pk.tanh(x), 0, reverse=True)
