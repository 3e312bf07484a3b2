"""Which pairs of products with an operand in common are one kernel in CUDA C++."""

from __future__ import annotations

from portakern.device import Device
from portakern.ir.schedule import Nest

from .hopper.choosing import multiplied_whole
from .hopper.narrow import FEW_ROWS


def pairs(nest: Nest, device: Device) -> bool:
    """Those of 16-bit operands that matrix instructions multiply.  Two sums of half as many columns take the room of one, and
    what one product would store for the other is neither written nor read.  Where there are more than a few rows, tensor memory
    takes single ones, which are faster than a pair by the instructions of older chips; and weights in groups are widened by a
    kernel of their own."""
    (m,) = nest.role("m")
    few = isinstance(m.extent, int) and m.extent <= FEW_ROWS
    if multiplied_whole(nest) not in ("bf16", "f16"):
        return False
    return nest.role("reduced") == nest.groups if few else not (nest.role("reduced") or device.has("tcgen05"))
