"""A program on a device of the native core that computes in the host's memory: on arrays in place, done on return."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from portakern import native
from portakern.backend import HostBuffer, Source
from portakern.errors import RuntimeFault
from portakern.launch.arrays import ArrayLibrary
from portakern.launch.executable import NativeExecutable
from portakern.launch.host_arrays import KIND, host_family_of
from portakern.launch.prepared import NativePrepared


class HostPrepared(NativePrepared):
    """A prepared call that has ended when it returns, as users of host arrays expect; ``call`` by itself only queues."""

    __slots__ = ("device",)

    def __init__(self, prepared: NativePrepared, device: native.Device) -> None:
        super().__init__(prepared.call, prepared.outputs, prepared.stream)
        self.device = device

    def __call__(self, stream: int | None = None) -> None:
        super().__call__(stream)
        self.device.synchronize(stream=self.stream if stream is None else stream)


class HostExecutable(NativeExecutable):
    """A program whose device reads and writes the host's memory.

    Raises:
        RuntimeFault: the device has memory of its own only.
        DriverError: the driver refuses the binary, or a kernel is not in it.
    """

    def __init__(self, source: Source, device: native.Device, binary: bytes) -> None:
        if not device.facts.host_memory:
            raise RuntimeFault(f"{device.facts.name} cannot use the host's memory where it is")
        super().__init__(source, device, binary, kind=KIND)

    @contextlib.contextmanager
    def _on_device(self, buffer: HostBuffer, checked: bool) -> Iterator[int]:
        """Where it is: what hangs on the place of an array is seen then.  Temporaries have ones that the device chooses."""
        if checked:
            with super()._on_device(buffer, checked) as address:
                yield address
        else:
            yield buffer.storage.ctypes.data + buffer.offset

    def _ended(self) -> None:
        """Users of host arrays expect results on return; and temporaries are free memory once nobody refers to them."""
        self.device.synchronize(stream=0)

    def _family(self, inputs: Sequence[Any]) -> ArrayLibrary:
        return host_family_of(inputs, self.device.ordinal)

    def _prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int],
                 outputs: Sequence[Any] | None) -> tuple[NativePrepared, ArrayLibrary]:  # fmt: skip
        prepared, family = super()._prepare(inputs, sizes, outputs)
        return HostPrepared(prepared, self.device), family
