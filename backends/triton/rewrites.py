"""What is rewritten in a kernel before it is printed."""

from __future__ import annotations

from portakern.device import Device
from portakern.emit.softmax import by_powers_of_two
from portakern.ir.core import Op
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Cast, Dot, Kernel, tile_type

as_floats = Rules()


def rewritten(kernel: Kernel, device: Device) -> Kernel:
    """Attention's softmax by powers of two; f16 multiplied as floats where the matrix cores take small ones as zero; in any
    kernel equal values merged and unused ones dropped."""
    if device.has("f16_matrix_flushes"):
        kernel = canonicalise(kernel, as_floats)
    return by_powers_of_two(kernel, fused=True) if kernel.family == "attention" else canonicalise(kernel)


@as_floats.on(Dot)
def wide(op: Dot) -> Op | None:
    """f16 below 2^-14 is up to 6e-5 of a value; bf16 below the normal range is 2^-126 and lost in any sum of floats."""
    if tile_type(op.lhs).dtype != "f16":
        return None
    return Dot(Cast(op.lhs, "f32"), Cast(op.rhs, "f32"), op.acc, op.axis, "ieee")
