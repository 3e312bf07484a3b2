"""Arrays between guard bands, and what a run did to the bands."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from portakern.backend import HostBuffer

PAGE = 4096
GUARD_BYTES = 4 * PAGE
"""On either side of every array; wide enough for a tile that overruns a row."""


@dataclass(frozen=True)
class Poison:
    """What outputs and guard bands hold before a run: one byte, or bytes that are drawn from ``seed`` for each array.

    Drawn bytes of an output of floats are numbers of 2 and more in size, most of them huge: what is added to them is lost.
    """

    byte: int = 0
    seed: int | None = None

    def bytes(self, name: str, place: str, size: int) -> np.ndarray:
        """The bytes ``before``, ``in`` or ``after`` the array ``name``."""
        if self.seed is None:
            return np.broadcast_to(np.uint8(self.byte), size)
        rng = np.random.Generator(np.random.SFC64([self.seed, zlib.crc32(f"{place} {name}".encode())]))
        return np.frombuffer(rng.bytes(size), np.uint8)

    def inside(self, buffer: HostBuffer) -> np.ndarray:
        """The bytes of an output."""
        found = self.bytes(buffer.name, "in", buffer.reach)
        width = buffer.dtype.itemsize
        if self.seed is None or buffer.dtype.kind in "iub" or found.size % width:
            return found
        elements = np.array(found).reshape(-1, width)
        elements[:, -1] |= 0x40  # the highest bit of the exponent, below the sign
        return elements.reshape(-1)


POISON = (Poison(0xFF), Poison(0x7F))
"""Of the first and the second run where nothing has to be kept secret: NaN, then a large number, in every float."""


def guarded(name: str, array: np.ndarray, poison: Poison, fill: bool = True) -> HostBuffer:
    """``array`` copied between guard bands; with ``fill`` unset only its place, which holds ``poison``."""
    body = -(-array.nbytes // PAGE) * PAGE
    raw = np.empty(body + 2 * GUARD_BYTES + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    storage = raw[start : start + body + 2 * GUARD_BYTES]
    buffer = HostBuffer(name, storage, GUARD_BYTES, array.shape, array.dtype)
    surround(buffer, poison)
    if fill:
        buffer.array[...] = array
    else:
        storage[GUARD_BYTES : GUARD_BYTES + array.nbytes] = poison.inside(buffer)
    return buffer


def surround(buffer: HostBuffer, poison: Poison) -> None:
    """Fills the guard bands."""
    for place, band in bands(buffer):
        band[...] = poison.bytes(buffer.name, place, band.size)


def bands(buffer: HostBuffer) -> tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]:
    end = buffer.offset + buffer.reach
    return ("before", buffer.storage[: buffer.offset]), ("after", buffer.storage[end:])


def damage(buffer: HostBuffer, poison: Poison) -> str:
    """What was written outside the array, or ''."""
    for side, band in bands(buffer):
        hit = np.flatnonzero(band != poison.bytes(buffer.name, side, band.size))
        if hit.size:
            away = buffer.offset - int(hit[-1]) if side == "before" else int(hit[0]) + 1
            return (f"{hit.size} bytes were written {side} {buffer.name}, the nearest "
                    f"{-(-away // buffer.dtype.itemsize)} elements outside it")  # fmt: skip
    return ""


def unwritten(buffer: HostBuffer, poison: Poison) -> np.ndarray:
    """Elements of an output that still hold the poison."""
    width = buffer.dtype.itemsize
    held = buffer.storage[buffer.offset : buffer.offset + buffer.reach].reshape(-1, width)
    return (held == poison.inside(buffer).reshape(-1, width)).all(-1).reshape(buffer.shape)
