"""Tensor maps: what the host prepares so that a kernel's copies of boxes need no address arithmetic.

The device's driver encodes them (``tensor_map`` of its table); backends whose kernels take some share this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from portakern.backend import Pixels, Source, TensorMap
from portakern.dtypes import DTYPES
from portakern.errors import RuntimeFault
from portakern.ir.size import evaluate
from portakern.launch.packing import Descriptor
from portakern.native import DriverError

if TYPE_CHECKING:
    from portakern import native

BYTES = 128
"""Of a map."""


def descriptors(source: Source, device: native.Device) -> tuple[Mapping[str, Descriptor], ...]:
    """What :class:`portakern.launch.executable.NativeExecutable` asks for the maps of each launch: names are a kernel's own."""
    dtypes = {a.name: a.dtype for a in source.arrays}
    maps = tuple({m.name: _encoder(device, m, dtypes[m.array]) for m in launch.maps} for launch in source.launches)
    return maps if any(maps) else ()


def _encoder(device: native.Device, m: TensorMap, dtype: str) -> Descriptor:
    def encoded(places: Mapping[str, int], sizes: Mapping[str, int]) -> bytes:
        shape, strides = ([evaluate(n, sizes) for n in x] for x in (m.shape, m.strides))
        begin = places[m.array] and places[m.array] + m.offset * DTYPES[dtype].bytes  # 0: a place that is kept for it
        return encode(device, begin, dtype, shape, strides, m.box, m.swizzle, m.pixels)

    return encoded


def encode(device: native.Device, address: int, dtype: str, shape: Sequence[int], strides: Sequence[int], box: Sequence[int],
           swizzle: int, pixels: Pixels | None = None) -> bytes:  # fmt: skip
    """The map of an array as the kernel takes it.

    Args:
        address: of the array on the device; 0 gives zeros (a place is kept for a map that is encoded later).
        shape, strides, box: in elements, outermost dim first; the last stride is 1.
        swizzle: 0, 32, 64 or 128 bytes.
        pixels: how an array of images is walked; then ``box`` says how many pixels and channels are copied.

    Raises:
        RuntimeFault: the driver has no tensor maps, or the hardware cannot copy such boxes (an address or stride that is no
            multiple of 16 bytes, a box of more than 256 elements along a dim, or wider than the swizzle).
    """
    if address == 0:
        return bytes(BYTES)
    array = f"{dtype}{list(shape)} with strides {list(strides)} at {address:#x}"
    asked = f"no tensor map can be made of {array}, boxes {list(box)}, swizzle {swizzle}"
    if strides[-1] != 1:
        raise RuntimeFault(f"{asked}: the last dim's elements do not lie side by side")
    try:
        walk = () if pixels is None else (pixels.lower, pixels.upper, pixels.steps)
        return device.tensor_map(address, dtype, DTYPES[dtype].bytes, shape, strides, box, swizzle, *walk)
    except DriverError as error:
        hint = "" if error.kind == "unsupported" else "addresses and strides must be multiples of 16 bytes"
        raise RuntimeFault(f"{asked} ({error.message})", hint=hint) from None
