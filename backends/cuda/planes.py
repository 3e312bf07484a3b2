"""Which convolutions of planes are one product of their weights with all pixels in CUDA C++."""

from __future__ import annotations

from portakern.ir.planes import PlaneConvolution

LINE, WASTED = 128, 0.1
"""Pixels that a tile takes, and the share of them that it may miss where it takes those of one line alone."""
STEP = 16
"""Channels of a tap that fill a step of a product."""


def takes_planes(asked: PlaneConvolution) -> bool:
    """Those of f32, where lines of pixels leave much of their tiles empty, or the channels of a tap most of a step.

    With lines that fill their tiles one is a product for each line and tap anyway, which reads lines as they lie.
    """
    if asked.dtype != "f32":
        return False
    return asked.phase or asked.channels < STEP or -asked.line % LINE > WASTED * asked.line
