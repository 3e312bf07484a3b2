"""What is rewritten in a kernel before it is printed."""

from __future__ import annotations

from portakern.device import Device
from portakern.emit.partials import reduced_once
from portakern.emit.softmax import by_powers_of_two
from portakern.emit.sums import with_fused_sums
from portakern.ir.rewrite import canonicalise
from portakern.ir.tile import Kernel

from .dots import rules_for
from .reduced_loads import masked_apart


def rewritten(kernel: Kernel, device: Device) -> Kernel:
    """Products as the device forms them; attention's softmax by powers of two; in any kernel equal values merged and unused
    ones dropped."""
    kernel = canonicalise(kernel, rules_for(device))
    kernel = reduced_once(by_powers_of_two(kernel, fused=True), device.count("subgroup") * kernel.schedule.warps)
    return masked_apart(with_fused_sums(kernel))
