"""Pallas: one row of a transposed convolution of an open size, so that every other phase of rows has no elements: what lies
between those was counted once too often.  In integers, too, whose phases were put together by scatters that took minutes."""
# case: {"dims": {"B": 2, "D": 3, "E": 4}, "dtype": "f32", "open": ["B"], "stages": ["integers"]}
# case: {"dims": {"B": 2, "D": 3, "E": 4}, "dtype": "i32", "open": ["B", "D"], "stages": ["integers"]}

import portakern as pk


@pk.operator
def op(y: pk.Tensor[1, 3, "B", "2*D"], w: pk.Tensor[3, "E", 3, 3]):
    return pk.conv(y, w, stride=2, padding=2, transposed=True, layout="NCHW")
