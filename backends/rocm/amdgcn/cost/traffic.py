"""Bytes at each level of the memory hierarchy, from the addresses that waves compute.

Blocks that are resident together are taken to go on in step: a line that several of them ask for at the same point of their
course is fetched once by the L2 of their die, and once for the device by the last-level cache.  Workgroup *n* runs on die
*n* modulo the number of dies (ROCm documentation, "MI300 series": workgroups go to the XCDs in turn).  What the arrays hold
at all bounds what comes from memory where it fits into the last level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .instructions import InstructionCost, Unit
from .values import Trace

NEAR = 64
"""Lines that a wave asked for last, which are taken to be in the L1 still: a quarter of its 32 KB."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of a whole launch: asked of the L2s, of the last-level cache behind them, and of memory; and written.

    ``known`` is the share of memory instructions whose addresses are known; the others are taken to be coalesced.
    """

    l2: float
    last_level: float
    memory: float
    written: float
    known: float


@dataclass(frozen=True)
class WaveTraffic:
    """What one wave loads: lines in order, without those it asked for just before, and bytes that it writes."""

    lines: np.ndarray
    written: int
    known: int
    unknown: int


def loaded(trace: Trace, costs: Sequence[InstructionCost | None], line: int, wave: int) -> WaveTraffic:
    """Of a wave of ``wave`` lanes."""
    recent: dict[int, None] = {}
    found: list[int] = []
    written = known = unknown = 0
    for access in trace.accesses.values():
        cost = costs[access.at]
        if cost is None or cost.unit is not Unit.VECTOR_MEMORY or cost.name.startswith("scratch"):
            continue
        lines, active = lines_of(access.addresses, cost.bytes, line, wave)
        known, unknown = (known + 1, unknown) if lines is not None else (known, unknown + 1)
        if cost.writes:
            written += active * cost.bytes
        elif lines is not None:
            for n in lines.tolist():
                if n not in recent:
                    found.append(n)
                recent.pop(n, None)
                recent[n] = None
            while len(recent) > NEAR:
                recent.pop(next(iter(recent)))
    return WaveTraffic(np.array(found, np.int64), written, known, unknown)


def lines_of(addresses: tuple[np.ndarray, ...] | None, width: int, line: int, wave: int) -> tuple[np.ndarray | None, int]:
    """(the lines that an access touches, its active lanes); addresses below zero are outside a buffer and touch none."""
    if addresses is None:
        return None, wave
    each = addresses[0][addresses[0] >= 0]
    return np.unique(np.concatenate([each // line, (each + max(width, 1) - 1) // line])), len(each)


def reuse(sets: Iterable[tuple[int, np.ndarray]], dies: int) -> tuple[float, float]:
    """(share of requests that leave the L2s, share that no other resident block asks for), of blocks by number."""
    asked, by_die, whole = 0, [set[int]() for _ in range(dies)], set[int]()
    for block, lines in sets:
        mine = set(lines.tolist())
        asked += len(mine)
        by_die[block % dies] |= mine
        whole |= mine
    if not asked:
        return 1.0, 1.0
    return sum(map(len, by_die)) / asked, len(whole) / asked


def traffic(
    wave: WaveTraffic,
    waves: int,
    blocks: int,
    line: int,
    shares: tuple[float, float],
    footprint: float,
    last_level_bytes: float,
    scale: float,
) -> Traffic:
    """Of ``blocks`` workgroups of ``waves`` waves that each load like ``wave`` (times ``scale``)."""
    asked = len(wave.lines) * line * waves * blocks * scale
    leaves, apart = shares
    memory = asked * apart
    if footprint and footprint <= last_level_bytes:
        memory = min(memory, footprint)
    total = wave.known + wave.unknown
    return Traffic(
        asked,
        asked * leaves,
        min(memory, asked * leaves),
        wave.written * waves * blocks * scale,
        wave.known / total if total else 1.0,
    )
