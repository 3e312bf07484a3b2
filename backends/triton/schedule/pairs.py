"""Which pairs of products with an operand in common are one kernel in Triton."""

from __future__ import annotations

from portakern.device import Device
from portakern.ir.schedule import Nest

FEW = 64
"""Rows below which a product is a matter of reading its weights, for which tiles are as small as they can be."""


def pairs(nest: Nest, device: Device) -> bool:
    """Those of 16-bit operands with more than a few rows: two sums of half as many columns take the room of one."""
    (m,) = nest.role("m")
    few = isinstance(m.extent, int) and m.extent < FEW
    return (nest.dots or nest.io_dtype) in ("bf16", "f16") and not few and not nest.role("reduced")
