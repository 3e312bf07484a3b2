"""simulator on HIP (AMD): 16-bit medians, extremes of three and products that add, as gfx9 makes them of bytes and indices."""
# case: {"dims": {"M": 2, "N": 33}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", pk.u8], y: pk.Tensor["M", "N", pk.i8], z: pk.Tensor["M", "N", pk.u8]):
    return pk.clip(x, 1, 5), pk.clip(y, -3, 9), x * z + x, pk.maximum(pk.maximum(x, z), 7)
