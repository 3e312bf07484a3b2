"""What a device cannot hold, or a compiler not end, as far as it can be told without compiling.

What a device cannot hold is certain.  What compilers write out for minutes, or spill by the hundred, is not, and no schedule
that a backend lists is near to it: searches and the fuzzer leave it out, a schedule that is asked for by name is taken.
"""

from __future__ import annotations

import math

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, Schedule

UNROLLED = 8192
"""Multiply-adds of wide operands that a thread may have in a step.  Languages of tiles write out each of them: NVIDIA's
assembler takes 7 s for 8192 beside an attention's weights, 19 s for twice as many, and over two minutes for 32768 (Triton 3.9,
sm_90)."""

WRITTEN = 16384
"""Operations on elements that a thread may have in a step.  Languages of tiles write out these, too: a search in an array of
open size, 250 operations on each of 128 elements, took compilers of CUDA C++ and Triton over two minutes."""

RUNNING = 1 << 19
"""Elements of running values in a step of a device of whole vectors, whose compiler writes out each of the log2 steps of all of
them: libtpu takes 10 s for half a million elements in lines of 31, 50 s for twice as many (libtpu 0.0.52, v6e)."""

LANES = 128
"""Elements side by side in a vector there, to which lines are filled up."""


def refused(nest: Nest, schedule: Schedule, device: Device) -> str:
    """Why ``schedule`` cannot run on ``device``, in a few words that are the same for the same reason; empty if it may."""
    if device.kind == "tpu" and nest.family in ("scan", "associative") and _filled(nest, schedule) > RUNNING:
        return "more running values in a step than compilers write out"
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
    if operand(nest, schedule) > 2 * registers * lanes:
        return "operands of twice the registers of a block"
    if DTYPES[nest.dots or nest.io_dtype].bits > 16 and multiply_adds(nest, schedule) > UNROLLED * lanes:
        return "more multiply-adds in a step than compilers write out"
    if nest.work * elements(nest, schedule) > WRITTEN * lanes:
        return "more operations in a step than compilers write out"
    return ""


def _filled(nest: Nest, schedule: Schedule) -> int:
    """Elements of a tile of lines, each of them filled up to whole vectors."""
    (line,) = nest.role("scanned")
    size = schedule.tile(line.name)
    return elements(nest, schedule) // size * (-(-size // LANES) * LANES)


def elements(nest: Nest, schedule: Schedule) -> int:
    """Elements of the tiles that a block holds at once: the largest, and in attention the scores beside the result."""
    if nest.family in ("contraction", "grouped"):
        return _tile(nest, schedule, "mn")
    if nest.family in ("attention", "chain"):
        return _tile(nest, schedule, "mn") + _tile(nest, schedule, "md")
    return math.prod(size for _, size in schedule.tiles)


def operand(nest: Nest, schedule: Schedule) -> int:
    """Elements of the larger operand of a product in one step: threads copy them, or compute them and hold them all."""
    if nest.family not in ("contraction", "grouped"):
        return 0
    return max(_tile(nest, schedule, "mk"), _tile(nest, schedule, "nk"))


def multiply_adds(nest: Nest, schedule: Schedule) -> int:
    """Of all products in one step of a block's loop."""
    if nest.family in ("contraction", "grouped"):
        return _tile(nest, schedule, "mnk")
    if nest.family in ("attention", "chain"):
        return _tile(nest, schedule, "mnk") + _tile(nest, schedule, "mnd")
    return 0


def _tile(nest: Nest, schedule: Schedule, roles: str) -> int:
    return math.prod(schedule.tile(a.name) for role in roles for a in nest.role(role))


def tile_registers(nest: Nest, schedule: Schedule) -> int:
    """32-bit registers that one tile in the compute dtype takes at the least, over the whole block."""
    return elements(nest, schedule) * max(1, DTYPES[nest.compute_dtype].bytes // 4)


def shared_bytes(nest: Nest, schedule: Schedule) -> int:
    """Bytes that the operands of a product take in all stages but one: some backends keep that one in registers."""
    if nest.family not in ("contraction", "grouped", "attention", "chain"):
        return 0
    m, n, k = (_tile(nest, schedule, role) for role in "mnk")
    size = DTYPES[nest.dots or nest.io_dtype].bytes
    if nest.family in ("attention", "chain"):
        return n * k * size * max(1, schedule.stages - 1)
    return (m + n) * k * size * max(1, schedule.stages - 1)
