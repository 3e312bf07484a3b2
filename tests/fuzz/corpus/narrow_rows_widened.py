"""Long rows of 16-bit elements widened to f32: a tile with more threads than vectors of 16 bytes was no CUDA C++."""
# case: {"dims": {"M": 65, "N": 255}, "dtype": "bf16", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"]):
    a = pk.cast(x, pk.f32)
    return pk.matmul(a, pk.swapaxes(a, -1, -2), dtype=pk.f32) * 0.1
