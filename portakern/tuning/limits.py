"""What a device cannot hold, as far as it can be told without compiling.  Only what is certain is refused here."""

from __future__ import annotations

import math

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, Schedule


def refused(nest: Nest, schedule: Schedule, device: Device) -> str:
    """Why ``schedule`` cannot run on ``device``, in a few words that are the same for the same reason; empty if it may."""
    if device.kind != "gpu":
        return ""  # threads, registers and shared memory are words of GPUs; the others' backends list what fits
    lanes = schedule.warps * device.count("subgroup", 32)
    if lanes > device.count("threads_per_block", 1024):
        return "more threads than a block may have"
    if shared_bytes(nest, schedule) > device.count("shared_bytes_per_block", 1 << 40):
        return "more shared memory than a block may have"
    registers = device.count("registers_per_thread", 1 << 20)
    if tile_registers(nest, schedule) > registers * lanes:
        return "tiles larger than the registers of a block"
    return ""


def elements(nest: Nest, schedule: Schedule) -> int:
    """Elements of the largest tile a block holds."""
    if nest.family in ("contraction", "grouped"):
        return math.prod(schedule.tile(a.name) for role in "mn" for a in nest.role(role))
    if nest.family in ("attention", "chain"):
        return math.prod(schedule.tile(a.name) for role in "md" for a in nest.role(role))
    return math.prod(size for _, size in schedule.tiles)


def tile_registers(nest: Nest, schedule: Schedule) -> int:
    """32-bit registers that one tile in the compute dtype takes at the least, over the whole block."""
    return elements(nest, schedule) * max(1, DTYPES[nest.compute_dtype].bytes // 4)


def shared_bytes(nest: Nest, schedule: Schedule) -> int:
    """Bytes that the operands of a product take in all stages but one: some backends keep that one in registers."""
    if nest.family not in ("contraction", "grouped", "attention", "chain"):
        return 0
    m, n, k = (math.prod(schedule.tile(a.name) for a in nest.role(role)) for role in "mnk")
    size = DTYPES[nest.dots or nest.io_dtype].bytes
    if nest.family in ("attention", "chain"):
        return n * k * size * max(1, schedule.stages - 1)
    return (m + n) * k * size * max(1, schedule.stages - 1)
