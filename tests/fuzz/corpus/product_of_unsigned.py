"""incorrect on cpp:cpu: panels held 8 and 16 bits of unsigned integers, their products were read as 32;

compile on triton:h200: tl.dot takes no integers but i8.
"""
# case: {"dims": {"M": 17, "N": 40, "K": 5}, "dtype": "f32", "stages": ["integers"]}
# case: {"dims": {"M": 17, "N": 17, "K": 1}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "K", pk.u8], y: pk.Tensor["K", "N", pk.u8]):
    return pk.matmul(x, y, dtype=pk.i32), pk.matmul(x, y - 3, dtype=pk.f32)
