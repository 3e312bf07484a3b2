"""Rotary position embedding (Su et al. 2021): arithmetic on coordinates, and a flip of the two halves.

portakern check examples/rope.py:rope --targets numba:cpu
"""

import math

import portakern as pk


@pk.operator(
    cases={
        "typical": dict(B=2, S=256, H=32),
        "ragged": dict(B=3, S=77, H=13),
        "tiny": dict(B=1, S=2, H=1),
        "one": dict(B=1, S=1, H=1),
        "zero": dict(B=1, S=0, H=8),
        "long": dict(B=1, S=4000, H=4),
    },
)
def rope(x: pk.Tensor["B", "S", 2, "H"], base: float = 10000.0):
    """The pair (x[0, i], x[1, i]) is turned by the angle position * base ** (-i / H)."""
    _, length, two, half = x.shape
    frequency = pk.exp(pk.arange(half, pk.f32) * (-math.log(base)) / pk.size(half, pk.f32))
    angle = (pk.arange(length, pk.f32)[:, None] * frequency)[:, None, :]
    sign = (pk.arange(two, pk.f32) * 2 - 1)[:, None]
    xf = pk.cast(x, pk.f32)
    return pk.cast(xf * pk.cos(angle) + sign * pk.flip(xf, 2) * pk.sin(angle), x.dtype)
