"""Cycles of LDS accesses with their bank conflicts, from the addresses of the lanes.

Lanes are served in phases; within a phase each bank gives one dword per cycle, and lanes that want the same dword share it.
Which lanes make up a phase was measured on an MI355X by HipKittens (analysis/paper_experiments/phases): 64 banks and 4 phases
for ds_read_b128, 2 for ds_read_b64; 32 banks and 8 phases for ds_read_b96, 4 for ds_write_b64.  CDNA 2 and 3 have 32 banks for
everything; their ds_read_b128 is taken to go in the phases of ds_read_b96, of 8 lanes too.  RDNA 3 and 4 have 32 banks in each
half of a workgroup processor's LDS (ISA guides, chapter "Data Share Operations"); which lanes go together has not been
published, and those beside each other are taken to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from .generation import generation

BANK = 4
"""Bytes of a bank's word."""

_EIGHT = (
    (0, 1, 2, 3, 20, 21, 22, 23),
    (4, 5, 6, 7, 16, 17, 18, 19),
    (8, 9, 10, 11, 28, 29, 30, 31),
    (12, 13, 14, 15, 24, 25, 26, 27),
)
_SIXTEEN = (
    (0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27),
    (4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31),
)


def banks(isa: str, width: int, writes: bool) -> int:
    """Banks that an access of ``width`` bytes a lane sees."""
    return 64 if isa == "gfx950" and not writes and width in (4, 8, 16) else 32


@cache
def phases(count: int, width: int, writes: bool, wave: int = 64) -> tuple[tuple[int, ...], ...]:
    """The lanes of each phase, of ``wave`` lanes."""
    lanes = max(1, count * BANK // max(BANK, width))
    if wave == 64 and not writes and width in (12, 16) and lanes <= 16:
        half = _SIXTEEN if lanes == 16 else _EIGHT
        return tuple(tuple(n + 32 * part for n in phase) for part in (0, 1) for phase in half)
    lanes = 1 << (lanes.bit_length() - 1)
    return tuple(tuple(range(n, min(wave, n + lanes))) for n in range(0, wave, lanes))


def access_cycles(
    isa: str, width: int, writes: bool, addresses: Sequence[np.ndarray] | None
) -> tuple[int, int]:
    """(cycles, cycles without conflicts) of an access of ``width`` bytes a lane to each of ``addresses``."""
    count = banks(isa, width, writes)
    groups = phases(count, width, writes, generation(isa).lanes)
    if addresses is None:
        return len(groups), len(groups)
    total = best = 0
    for each in addresses:
        best += len(groups)
        total += sum(_phase(each, group, width, count) for group in groups)
    return total, best


def _phase(addresses: np.ndarray, group: tuple[int, ...], width: int, count: int) -> int:
    lanes = [n for n in group if n < len(addresses)]
    if not lanes:
        return 1
    first = addresses[lanes] // BANK
    words = np.unique((first[:, None] + np.arange(max(1, width // BANK))).ravel())
    return max(1, int(np.bincount(words % count).max()))
