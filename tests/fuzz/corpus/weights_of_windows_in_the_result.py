"""Pallas: numbers that weigh the taps of windows, and then the result along a dim of its own: the loop that stores was taken for
one over taps, and the kernel had no body."""
# case: {"dims": {"M": 70, "N": 130}, "dtype": "f32", "open": ["N"]}
# case: {"dims": {"M": 6, "N": 9}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M", "N"], w: pk.Tensor[3]):
    total = pk.sum(pk.windows(x, 3) * w, axis=-1)
    return total[:, :, None] * w[None, None, :]
