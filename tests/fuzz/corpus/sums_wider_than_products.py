"""incorrect on cpp:cpu: products of f32 summed in f64 met panels of f32."""
# case: {"dims": {"M": 9, "N": 20, "K": 5}, "dtype": "f32", "stages": ["integers"]}
# case: {"dims": {"M": 9, "N": 20, "K": 5}, "dtype": "bf16", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "K"], y: pk.Tensor["K", "N"]):
    return pk.matmul(x, y, dtype=pk.f64)
