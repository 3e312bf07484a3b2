"""Which pairs of products with an operand in common are one kernel in Triton."""

from __future__ import annotations

from portakern.device import Device
from portakern.ir.schedule import Nest


def pairs(nest: Nest, device: Device) -> bool:
    """Those of 16-bit operands: two sums of half as many columns take the room of one."""
    return (nest.dots or nest.io_dtype) in ("bf16", "f16") and not nest.role("reduced")
