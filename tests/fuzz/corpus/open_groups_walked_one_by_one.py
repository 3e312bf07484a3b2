"""runtime on triton:sm_90: the number of a group, which an open count of groups makes 64 bits wide, is Python's in a walk.

Compiled, it was 32 bits wide, so that the weights of a later group would have been read at a wrapped offset.
"""
# case: {"dims": {"M": 65, "N": 33, "K": 12}, "dtype": "f32", "open": ["K", "M"], "stages": ["integers"], "schedule": 128}

import portakern as pk


@pk.operator(inputs={"offsets": pk.Integers(0, 40)})
def op(x: pk.Tensor["M", "N"], w: pk.Tensor["K", "N", 7, pk.f32], offsets: pk.Tensor["K + 1", pk.i32]):
    return pk.grouped_matmul(x, w, offsets)
