"""What is rewritten in a kernel before it is printed."""

from __future__ import annotations

from portakern.emit.softmax import by_powers_of_two
from portakern.ir.rewrite import canonicalise
from portakern.ir.tile import Kernel


def rewritten(kernel: Kernel) -> Kernel:
    """Attention's softmax by powers of two; in any kernel equal values merged and unused ones dropped."""
    return by_powers_of_two(kernel) if kernel.family == "attention" else canonicalise(kernel)
