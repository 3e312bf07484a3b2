"""Host arrays that begin where a GPU's allocations do, which the machine works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portakern.backend import HostBuffer

if TYPE_CHECKING:
    import numpy as np

ALIGNMENT = 256
"""Of arrays, in bytes: what hipMalloc gives."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A new array that begins where a GPU's allocations do, full of ones (NaN)."""
    import numpy as np

    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    storage = np.full(size + ALIGNMENT, 0xFF, np.uint8)
    start = -storage.ctypes.data % ALIGNMENT
    return storage[start : start + size].view(dtype).reshape(shape)


def aligned(buffer: HostBuffer) -> HostBuffer:
    """``buffer``, or a copy of it whose array begins where a GPU's allocations do."""
    import numpy as np

    if (buffer.storage.ctypes.data + buffer.offset) % ALIGNMENT == 0:
        return buffer
    room = np.empty(buffer.storage.size + ALIGNMENT, np.uint8)
    start = -(room.ctypes.data + buffer.offset) % ALIGNMENT
    storage = room[start : start + buffer.storage.size]
    storage[...] = buffer.storage
    return HostBuffer(buffer.name, storage, buffer.offset, buffer.shape, buffer.dtype)
