"""incorrect on cpp:cpu, CUDA C++ and HIP: ``~`` of an integer was C's ``!``; on all: of u8 it was less than 0.

Integers narrower than 32 bits are computed in 32, and what leaves their range wraps round before anything reads it.
"""
# case: {"dims": {"M": 3, "N": 17}, "dtype": "f32", "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N", pk.u8], y: pk.Tensor["M", "N", pk.i8], z: pk.Tensor["M", "N", pk.i32]):
    wrapped = pk.cast(~x, pk.f32), pk.cast(x - 200, pk.i32) // 3, pk.cast(y * 100, pk.f32)
    return ~x, ~y, ~z, ~(x > 3), ~(x | 5) & x, (y << 3) ^ y, *wrapped
