"""A simple model of a kernel's time, which ranks schedules before anything is compiled.  Never printed as a time.

Bytes moved over the memory's bandwidth, FLOPs over the peak, both stretched by what a schedule wastes: tiles that stick out,
a last wave that leaves units idle, too few bytes on their way to hide the memory's latency, and matrix tiles that read their
operands too often.  It knows nothing of caches, banks and instructions, so only schedules far behind are given up for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.ir.schedule import Nest, NestAxis, Schedule
from portakern.tuning.limits import elements, shared_bytes, tile_registers

LATENCY_S = 8e-7
"""Time a load from memory takes under load: the round figure of this model for every GPU, and no property of any."""

OPEN_EXTENT = 4096
"""What an open axis counts as."""

FAR_BEHIND = 3.0
"""A schedule whose cost is this many times the least known one is not compiled."""


@dataclass(frozen=True)
class CostEstimate:
    """``us`` ranks schedules of one nest; ``why`` says what bounds it."""

    us: float
    why: str


def cost(nest: Nest, schedule: Schedule, device: Device) -> CostEstimate | None:
    """The model's answer; ``None`` for a device whose description lacks the figures."""
    if device.kind != "gpu" or "bandwidth" not in device.figures or "units" not in device.figures:
        return None
    units, bandwidth = device.count("units"), device.value("bandwidth")
    blocks, resident = _blocks(nest, schedule), _resident(nest, schedule, device)
    waves = math.ceil(blocks / (units * resident))
    tail = blocks / (waves * units * resident) if waves < 8 else 1.0
    moved = _bytes(nest, schedule)
    flight = min(resident, math.ceil(blocks / units)) * _tile_bytes(nest, schedule) * units
    hidden = min(1.0, flight / (LATENCY_S * bandwidth))
    memory = moved / bandwidth / max(hidden * max(tail, 1 / 16), 1e-9)
    peak = device.value(f"peak_{nest.dots or nest.compute_dtype}", 0.0) or device.value("peak_f32", 0.0)
    compute = _flops(nest, schedule) / peak / max(tail, 1 / 16) if peak else 0.0
    return CostEstimate(1e6 * max(memory, compute), "memory" if memory >= compute else "arithmetic")


def _extent(axis: NestAxis) -> int:
    return axis.extent if isinstance(axis.extent, int) else OPEN_EXTENT


def _covered(axis: NestAxis, schedule: Schedule) -> int:
    """Elements along the axis that the tiles compute, those that stick out included."""
    tile = schedule.tile(axis.name)
    return -(-max(1, _extent(axis)) // tile) * tile


_WALKED = {"rows": ("reduced",), "segments": ("walked",), "scan": ("scanned",), "associative": ("scanned",),
           "contraction": ("k",), "grouped": ("group", "k"), "attention": ("n", "k", "d"),
           "chain": ("reduced", "n", "k", "kd", "d")}


def _blocks(nest: Nest, schedule: Schedule) -> int:
    walked = _WALKED.get(nest.family, ())
    return max(1, math.prod(-(-_extent(a) // schedule.tile(a.name)) for a in nest.axes if a.role not in walked))


def _resident(nest: Nest, schedule: Schedule, device: Device) -> int:
    """Blocks that a unit can hold at once, by threads, shared memory and the least of registers."""
    threads = schedule.warps * device.count("subgroup", 32)
    limits = [device.count("blocks_per_unit", 32), device.count("threads_per_unit", 2048) // max(1, threads)]
    if shared := shared_bytes(nest, schedule):
        limits.append(device.count("shared_bytes_per_unit", shared) // shared)
    # Values beside the tile, addresses and loop state take registers too.
    registers = max(32 * threads, tile_registers(nest, schedule) * max(1, nest.live) + 24 * threads)
    limits.append(device.count("registers_per_unit", 65536) // registers)
    return max(1, min(limits))


def _tile_bytes(nest: Nest, schedule: Schedule) -> int:
    if nest.family in ("contraction", "grouped", "attention", "chain"):
        return max(1, shared_bytes(nest, schedule))
    return elements(nest, schedule) * DTYPES[nest.io_dtype].bytes * max(1, nest.live - 1)


def _bytes(nest: Nest, schedule: Schedule) -> float:
    size = DTYPES[nest.io_dtype].bytes
    if nest.family in ("contraction", "grouped", "attention", "chain"):
        m, n, k = (math.prod(_covered(a, schedule) for a in nest.role(r)) for r in "mnk")
        batch = math.prod(_extent(a) for a in nest.role("batch"))
        return float(batch * (m * k + k * n + m * n) * size)
    whole = math.prod(_covered(a, schedule) for a in nest.axes)
    walked = any(schedule.tile(a.name) < _extent(a) for a in nest.axes if a.role in _WALKED.get(nest.family, ()))
    return float(whole * max(1, nest.live) * size * (max(1, nest.passes - 1) if walked else 1))


def _flops(nest: Nest, schedule: Schedule) -> float:
    if nest.family not in ("contraction", "grouped", "attention", "chain"):
        return float(math.prod(_covered(a, schedule) for a in nest.axes))
    batch = math.prod(_extent(a) for a in nest.role("batch"))
    m, n, k = (math.prod(_covered(a, schedule) for a in nest.role(r)) for r in "mnk")
    d = math.prod(_covered(a, schedule) for a in nest.role("d")) if nest.family in ("attention", "chain") else 0
    tm, tn = (math.prod(schedule.tile(a.name) for a in nest.role(r)) for r in "mn")
    # A matrix unit waits for shared memory where tiles are small: an operand element is used tm or tn times only.
    reuse = min(1.0, 2 * tm * tn / (tm + tn) / 256)
    return 2.0 * batch * m * n * (k + d) / max(reuse, 0.05)
