"""Device memory of the native core that is freed with the object, and arrays' initial values in it."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from portakern.backend import HostBuffer
from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import PortakernError, RuntimeFault
from portakern.ir.program import Array
from portakern.launch.packing import shape_of
from portakern.native import CopySpec, FillSpec

if TYPE_CHECKING:
    from portakern import native


class DeviceMemory:
    """``count`` bytes of a device."""

    def __init__(self, device: native.Device, count: int) -> None:
        self.device = device
        self.count = count
        self.address = device.allocate(max(1, count))
        self._release = weakref.finalize(self, _free, device, self.address)

    def read_from(self, host: Any) -> None:
        """Copy a contiguous numpy array in."""
        if host.nbytes:
            self.device.copy_in(self.address, host.ctypes.data, host.nbytes)

    def write_to(self, host: Any) -> None:
        """Copy out into a contiguous numpy array."""
        if host.nbytes:
            self.device.copy_out(host.ctypes.data, self.address, host.nbytes)

    def free(self) -> None:
        """Now, where waiting for the last reference would keep too much."""
        self._release()


def _free(device: native.Device, address: int) -> None:
    with contextlib.suppress(PortakernError):  # a device that is lost has nothing to give back
        device.free(address)


def initial_step(device: native.Device, array: Array, address: int,
                 sizes: Mapping[str, int]) -> tuple[Any, DeviceMemory | None]:  # fmt: skip
    """The step that gives ``array`` its initial value, and the constants it copies from, to be kept with the call."""
    import numpy as np

    count = math.prod(shape_of(array, sizes))
    raw = np.full(1, array.init).astype(numpy_dtype(array.dtype)).tobytes()
    if len(set(raw)) == 1:
        return FillSpec(address, raw[0], count * len(raw)), None
    constants = DeviceMemory(device, count * len(raw))
    constants.read_from(np.frombuffer(raw * count, np.uint8))
    return CopySpec(address, constants.address, constants.count), constants


# ---- temporaries of a checked run: host buffers between guard bands of their own ----------------------------------------

_GUARD, _PATTERN = 256, 0xC3
_POISON = 0xFF
"""What a temporary holds before a run: NaN in every float."""


def guarded_temporary(array: Array, sizes: Mapping[str, int]) -> HostBuffer:
    import numpy as np

    shape = shape_of(array, sizes)
    count = math.prod(shape) * DTYPES[array.dtype].bytes
    storage = np.full(count + 2 * _GUARD, _PATTERN, np.uint8)
    storage[_GUARD : _GUARD + count] = _POISON
    return HostBuffer(array.name, storage, _GUARD, shape, numpy_dtype(array.dtype))


def check_guards(buffer: HostBuffer) -> None:
    """Raises :class:`RuntimeFault` where a kernel wrote beside a temporary."""
    end = buffer.offset + buffer.array.nbytes
    if any((part != _PATTERN).any() for part in (buffer.storage[: buffer.offset], buffer.storage[end:])):
        raise RuntimeFault(f"a kernel wrote outside the temporary {buffer.name}")
