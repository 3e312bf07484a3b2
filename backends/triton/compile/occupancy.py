"""How many warps (wavefronts) of a kernel fit on one unit, from its resources and the device's figures.

NVIDIA: "CUDA Occupancy Calculator" rules: registers are given out per warp in chunks, shared memory per block in chunks
with a system reserve. AMD: each SIMD holds a fixed number of registers for each lane, given out in granules ("AMD CDNA3
ISA", "RDNA4 ISA", VGPR allocation), and LDS is shared by the work-groups of a compute unit.
"""

from __future__ import annotations

from portakern.device import Device


def occupancy(device: Device, warps: int, registers: int, shared_bytes: int) -> tuple[float, str]:
    """The share of the unit's warp slots that can be filled, and what limits it (registers, shared, warps, blocks)."""
    lanes = device.count("subgroup")
    slots = device.count("threads_per_unit") // lanes
    granule = device.count("register_granule")
    per_lane = -(-max(registers, 1) // granule) * granule
    simds = device.count("simds")
    by_registers = device.count("registers_per_unit") // simds // (per_lane * lanes) * simds // warps
    unit = device.count("shared_granule")
    reserve = device.count("shared_reserve", 0)
    per_block = -(-(shared_bytes + reserve) // unit) * unit
    limits = {
        "registers": by_registers,
        "warps": slots // warps,
        "blocks": device.count("blocks_per_unit"),
    }
    if per_block:
        limits["shared"] = device.count("shared_bytes_per_unit") // per_block
    limiter = min(limits, key=lambda k: limits[k])
    return limits[limiter] * warps / slots, limiter
