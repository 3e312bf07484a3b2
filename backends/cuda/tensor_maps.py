"""Tensor maps: what the host prepares so that a kernel's copies of boxes need no address arithmetic.

Encoded by the driver (``cuTensorMapEncodeTiled`` of CUDA 12, a function of the host alone; its signature and values follow
the CUDA Driver API reference).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from portakern.backend import Source, TensorMap
from portakern.dtypes import DTYPES
from portakern.errors import RuntimeFault, ToolMissing
from portakern.ir.size import evaluate
from portakern.launch.packing import Descriptor

BYTES, ALIGNMENT = 128, 64
"""Of a CUtensorMap."""

# CUtensorMapDataType; a boolean is a byte.
_TYPES = {"u8": 0, "i8": 0, "bool": 0, "f8e4m3": 0, "f8e5m2": 0, "u16": 1, "i16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5,
          "f16": 6, "f32": 7, "f64": 8, "bf16": 9}  # fmt: skip
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_NO_INTERLEAVE, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 2, 0


def descriptors(source: Source) -> dict[str, Descriptor]:
    """What :class:`portakern.launch.executable.NativeExecutable` asks for the maps of all launches."""
    dtypes = {a.name: a.dtype for a in source.arrays}
    maps = {m.name: m for launch in source.launches for m in launch.maps}
    return {name: _encoder(m, dtypes[m.array]) for name, m in maps.items()}


def _encoder(m: TensorMap, dtype: str) -> Descriptor:
    def encoded(places: Mapping[str, int], sizes: Mapping[str, int]) -> bytes:
        shape, strides = ([evaluate(n, sizes) for n in x] for x in (m.shape, m.strides))
        return encode(places[m.array], dtype, shape, strides, m.box, m.swizzle)

    return encoded


def encode(address: int, dtype: str, shape: Sequence[int], strides: Sequence[int], box: Sequence[int], swizzle: int) -> bytes:
    """The map of an array as the kernel takes it.

    Args:
        address: of the array on the device; 0 gives zeros (a place is kept for a map that is encoded later).
        shape, strides, box: in elements, outermost dim first; the last stride is 1.
        swizzle: 0, 32, 64 or 128 bytes.

    Raises:
        RuntimeFault: the hardware cannot copy such boxes (an address or stride that is no multiple of 16 bytes, a box of
            more than 256 elements along a dim, or wider than the swizzle).
        ToolMissing: the driver has no tensor maps.
    """
    if address == 0:
        return bytes(BYTES)
    rank, size = len(shape), DTYPES[dtype].bytes
    room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
    place = -(-ctypes.addressof(room) // ALIGNMENT) * ALIGNMENT
    status = _function()(
        ctypes.c_void_p(place), ctypes.c_int(_TYPES[dtype]), ctypes.c_uint32(rank), ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * rank)(*(n * size for n in reversed(strides[:-1]))),
        (ctypes.c_uint32 * rank)(*reversed(box)), (ctypes.c_uint32 * rank)(*[1] * rank),
        ctypes.c_int(_NO_INTERLEAVE), ctypes.c_int(_SWIZZLES[swizzle]), ctypes.c_int(_PROMOTE_TO_128_BYTES),
        ctypes.c_int(_ZEROS_OUTSIDE),
    )  # fmt: skip
    if status or strides[-1] != 1:
        raise RuntimeFault(f"no tensor map can be made of {dtype}{list(shape)} with strides {list(strides)} at {address:#x}, "
                           f"boxes {list(box)}, swizzle {swizzle} (cuTensorMapEncodeTiled returned {status})",
                           hint="addresses and strides must be multiples of 16 bytes")
    return ctypes.string_at(place, BYTES)


@cache
def _function() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    except OSError as error:
        raise ToolMissing(f"the NVIDIA driver is not installed here ({error})") from None
    except AttributeError:
        raise ToolMissing("this NVIDIA driver has no tensor maps", hint="a driver of CUDA 12 or newer has them") from None
