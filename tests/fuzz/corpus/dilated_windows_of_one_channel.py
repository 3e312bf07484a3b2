"""Pallas: one channel, taps that lie apart, several rows of positions a step: positions side by side were taken for rows."""
# case: {"dims": {"D": 5, "E": 32, "F": 8, "G": 1}, "dtype": "f32", "stages": ["cancelling"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["D", "E", "F", "G"], w: pk.Tensor[3, 3, "G", 2]):
    return pk.conv(x, w, dilation=3)
