"""Arrays between guard bands, and what a run did to the bands."""

from __future__ import annotations

import numpy as np

from portakern.backend import HostBuffer

PAGE = 4096
GUARD_BYTES = 4 * PAGE
"""On either side of every array; wide enough for a tile that overruns a row."""

POISON = (0xFF, 0x7F)
"""What outputs and guard bands hold before the first and the second run: NaN, then a large number, in every float."""


def guarded(name: str, array: np.ndarray, poison: int, fill: bool = True) -> HostBuffer:
    """``array`` copied between guard bands; with ``fill`` unset only its place, which holds ``poison``."""
    body = -(-array.nbytes // PAGE) * PAGE
    raw = np.empty(body + 2 * GUARD_BYTES + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    storage = raw[start : start + body + 2 * GUARD_BYTES]
    storage[:] = poison
    buffer = HostBuffer(name, storage, GUARD_BYTES, array.shape, array.dtype)
    if fill:
        buffer.array[...] = array
    return buffer


def damage(buffer: HostBuffer, poison: int) -> str:
    """What was written outside the array, or ''."""
    for side, band in (("before", buffer.storage[: buffer.offset]), ("after", buffer.storage[buffer.offset + buffer.reach :])):
        hit = np.flatnonzero(band != poison)
        if hit.size:
            away = buffer.offset - int(hit[-1]) if side == "before" else int(hit[0]) + 1
            return (f"{hit.size} bytes were written {side} {buffer.name}, the nearest "
                    f"{-(-away // buffer.dtype.itemsize)} elements outside it")  # fmt: skip
    return ""


def unwritten(array: np.ndarray, poison: int) -> np.ndarray:
    """Elements that still hold the poison."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)
    return (raw == poison).all(-1)
