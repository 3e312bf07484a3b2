"""Which pairs of products with an operand in common are one kernel in CUDA C++."""

from __future__ import annotations

from portakern.device import Device
from portakern.ir.schedule import Nest

from .hopper.choosing import multiplied_whole

FEW = 1
"""Rows below which a product is a matter of reading its weights, for which other kernels are faster."""


def pairs(nest: Nest, device: Device) -> bool:
    """Those of 16-bit operands that matrix instructions multiply, where there are more than a few rows.  Two sums of half as
    many columns take the room of one, and what one product would store for the other is neither written nor read.  Tensor
    memory takes single ones, which are faster than a pair by the instructions of older chips."""
    (m,) = nest.role("m")
    few = isinstance(m.extent, int) and m.extent < FEW
    return multiplied_whole(nest) in ("bf16", "f16") and not few and not device.has("tcgen05") and not nest.role("reduced")
