"""C++: the pixels of a convolution to one channel are the right operand, whose lines must be copied before they are packed."""
# case: {"dims": {"N": 2, "E": 14, "F": 2, "G": 512}, "dtype": "bf16", "stages": ["integers", "large"]}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["N", "E", "F", "G"], w: pk.Tensor[3, 1, "G", 1]):
    return pk.conv(x, w, dtype=pk.f32)
