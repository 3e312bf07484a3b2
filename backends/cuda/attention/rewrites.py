"""What is rewritten before attention is planned."""

from __future__ import annotations

from portakern.emit.softmax import by_powers_of_two
from portakern.ir.tile import Dot, Kernel, tile_type


def rewritten(kernel: Kernel) -> Kernel:
    """Softmax by powers of two where products are of 16-bit operands; wider ones are worth exponentials of full precision."""
    dots = [op for op in kernel.body.walk() if isinstance(op, Dot)]
    return by_powers_of_two(kernel, fused=True) if all(tile_type(op.lhs).dtype in ("bf16", "f16") for op in dots) else kernel
