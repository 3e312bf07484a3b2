"""Products of 8-bit floats whose sums are not to be cut: in f16, which holds every one of them.

Inside one instruction Hopper aligns products of 8-bit floats to the largest one and keeps about 14 bits.  Who asks for that
(``precision="fp8_fast"``) has them multiplied as they are.
"""

from __future__ import annotations

from portakern.ir.core import Op
from portakern.ir.rewrite import Rules, canonicalise
from portakern.ir.tile import Cast, Dot, Kernel, tile_type

rules = Rules()


def with_exact_sums(kernel: Kernel) -> Kernel:
    """``kernel`` with operands of 8-bit floats widened where their product is not ``fp8_fast``."""
    return canonicalise(kernel, rules)


@rules.on(Dot)
def of_wider_operands(op: Dot) -> Op | None:
    if op.precision != "ieee" or not tile_type(op.lhs).dtype.startswith("f8"):
        return None
    return Dot(Cast(op.lhs, "f16"), Cast(op.rhs, "f16"), op.acc, op.axis, "ieee", loc=op.loc)
