"""How many waves of a kernel fit on a compute unit, from a device's figures, and what stops more of them.

Every limit is a rule of the hardware (allocation granules, file sizes, barriers) with its source in ``devices/*.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass

from portakern.device import Device


@dataclass(frozen=True)
class Occupancy:
    """``share`` of the unit's wave slots that can be filled by ``blocks`` work-groups at a time; ``limiter`` is waves,
    registers, scalar registers, LDS or work-groups."""

    share: float
    blocks: int
    limiter: str


def _round_up(n: int, granule: int) -> int:
    return -(-n // granule) * granule


def occupancy(device: Device, threads: int, registers: int, scalars: int, shared_bytes: int) -> Occupancy:
    """Occupancy of work-groups of ``threads`` lanes with these registers (unified, per lane) and LDS bytes."""
    simds, slots = device.count("simds_per_unit"), device.count("waves_per_simd")
    wave = device.count("subgroup")
    waves = -(-threads // wave)
    per_simd = device.count("registers_per_unit") // (simds * wave)
    limits: dict[str, int] = {"waves": slots * simds // waves}
    granule = device.count("register_granule")
    limits["registers"] = _blocks(per_simd // _round_up(max(registers, 1), granule), slots, simds, waves)
    if "scalars_per_simd" in device.figures:
        granted = _round_up(max(scalars, 1), device.count("scalar_granule"))
        limits["scalar registers"] = _blocks(device.count("scalars_per_simd") // granted, slots, simds, waves)
    if shared_bytes:
        granted = _round_up(shared_bytes, device.count("shared_granule"))
        limits["LDS"] = device.count("shared_bytes_per_unit") // granted
    if waves > 1:  # a work-group of one wave needs no barrier
        limits["work-groups"] = device.count("blocks_per_unit")
    limiter = min(limits, key=lambda name: limits[name])
    blocks = limits[limiter]
    return Occupancy(min(1.0, blocks * waves / (slots * simds)), blocks, limiter)


def _blocks(waves_per_simd: int, slots: int, simds: int, waves: int) -> int:
    return min(waves_per_simd, slots) * simds // waves
