"""Arrays in the memory of a device that no library of arrays here drives: made and read through the native core.

They have no arithmetic.  They are what timing and checks need: a shape, a dtype, an address, and copies to and from the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from portakern.dtypes import numpy_dtype
from portakern.launch.arrays import ArrayLibrary
from portakern.launch.memory import DeviceMemory

if TYPE_CHECKING:
    import numpy as np

    from portakern import native


class DeviceArray:
    """A contiguous array on ``device``; its memory goes with it."""

    def __init__(self, device: native.Device, shape: tuple[int, ...], dtype: str) -> None:
        """``dtype`` as ``f32``."""
        self.shape, self.dtype, self.ndim = shape, numpy_dtype(dtype), len(shape)
        self.memory = DeviceMemory(device, math.prod(shape) * self.dtype.itemsize)

    @property
    def device(self) -> native.Device:
        return self.memory.device

    def read(self) -> np.ndarray:
        """A copy on the host."""
        import numpy as np

        found = np.empty(self.shape, self.dtype)
        self.memory.write_to(found)
        return found

    def write(self, host: np.ndarray) -> None:
        import numpy as np

        self.memory.read_from(np.ascontiguousarray(host))


class DeviceArrays(ArrayLibrary):
    """The family of these arrays."""

    def __init__(self, kind: str, device: native.Device) -> None:
        super().__init__(kind, device.ordinal)
        self.on = device

    def view(self, given: Any) -> Any:
        return given

    def stream(self) -> int:
        return 0

    def addresses(self, arrays: Sequence[Any]) -> list[int]:
        return [x.memory.address for x in arrays]

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        return lambda: DeviceArray(self.on, shape, dtype)

    def device(self, array: Any) -> tuple[str, int]:
        return self.kind, array.device.ordinal

    def strides(self, array: Any) -> tuple[int, ...]:
        from portakern.launch.facts import row_major

        return row_major(array.shape)
