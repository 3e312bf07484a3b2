"""HIP's run-time library by its C interface: just what loading, copying and launching needs.

Signatures follow the HIP Runtime API reference.  The library is opened on first use, from ``$PORTAKERN_HIP_LIBRARY`` or where
the system finds it; nothing of ROCm is needed to build.  No AMD GPU was at hand when this was written: it is exercised
against a stand-in library (tests/rocm/test_runtime.py) and against no silicon.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

from portakern.errors import RuntimeFault, ToolMissing

LIBRARY = "PORTAKERN_HIP_LIBRARY"
_NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
_TO_DEVICE, _TO_HOST = 1, 2  # hipMemcpyKind
_PROPERTIES = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")
_FATAL = {700, 702, 709, 719}  # illegal address, launch timeout, context destroyed, launch failure


class HipDriver:
    """libamdhip64, initialised.  Raises :class:`ToolMissing` where there is none, or no GPU."""

    def __init__(self) -> None:
        self._lib = _open()
        self.dead = ""
        count = ctypes.c_int()
        status = self._lib.hipInit(0) or self._lib.hipGetDeviceCount(ctypes.byref(count))
        if status or not count.value:
            reason = self._name(status) if status else "it finds no GPU"
            raise ToolMissing(f"AMD's HIP runtime is here and cannot be used: {reason}",
                              hint="is there a GPU, and may this process open /dev/kfd?")  # fmt: skip
        self.count = count.value

    def call(self, function: str, *args: Any) -> None:
        """Call a function of the library; raises :class:`RuntimeFault` with its error."""
        if self.dead:
            raise RuntimeFault(f"{function}: an earlier kernel ended this process's use of the GPU ({self.dead})",
                               hint="start a new process", kind="device-lost")  # fmt: skip
        status = getattr(self._lib, function)(*args)
        if status:
            name = self._name(status)
            self.dead = name if status in _FATAL else ""
            raise RuntimeFault(f"{function}: {name}", kind="device-lost" if status in _FATAL else "")

    def _name(self, status: int) -> str:
        text = self._lib.hipGetErrorString
        text.restype = ctypes.c_char_p
        return f"{(text(status) or b'error').decode()} ({status})"

    @cached_property
    def devices(self) -> tuple[tuple[str, str], ...]:
        """(name, instruction set) of every GPU."""
        return tuple((self._text(n), self._isa(n)) for n in range(self.count))

    def _text(self, ordinal: int) -> str:
        name = ctypes.create_string_buffer(256)
        self.call("hipDeviceGetName", name, 256, ordinal)
        return name.value.decode()

    def _isa(self, ordinal: int) -> str:
        """The instruction set, found in the property structure by its form (gfx90a:sramecc+:xnack-): the structure's layout
        changes between versions, and it holds no other text that begins like that."""
        room = ctypes.create_string_buffer(16384)
        for function in _PROPERTIES:
            if hasattr(self._lib, function):
                self.call(function, room, ordinal)
                found = re.search(rb"gfx[0-9a-f]+", room.raw)
                return found[0].decode() if found else "unknown"
        raise RuntimeFault("this HIP runtime has no hipGetDeviceProperties")

    # ---- memory

    def use(self, ordinal: int) -> None:
        self.call("hipSetDevice", ordinal)

    def allocate(self, size: int) -> int:
        place = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(place), ctypes.c_size_t(max(size, 1)))
        return place.value or 0

    def free(self, place: int) -> None:
        self.call("hipFree", ctypes.c_void_p(place))

    def upload(self, place: int, host: int, size: int) -> None:
        self.call("hipMemcpy", ctypes.c_void_p(place), ctypes.c_void_p(host), ctypes.c_size_t(size), _TO_DEVICE)

    def download(self, host: int, place: int, size: int) -> None:
        self.call("hipMemcpy", ctypes.c_void_p(host), ctypes.c_void_p(place), ctypes.c_size_t(size), _TO_HOST)

    def synchronize(self) -> None:
        self.call("hipDeviceSynchronize")

    # ---- kernels

    def load(self, code: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self.call("hipModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        self.call("hipModuleUnload", module)

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self.call("hipModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def launch(self, function: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int], shared: int, stream: int,
               args: Sequence[Any]) -> None:  # fmt: skip
        """``args`` are ctypes values; the library copies them before it returns."""
        pointers = (ctypes.c_void_p * max(1, len(args)))(*(ctypes.cast(ctypes.pointer(a), ctypes.c_void_p) for a in args))
        shape = map(ctypes.c_uint, (*grid, *block, shared))
        self.call("hipModuleLaunchKernel", function, *shape, ctypes.c_void_p(stream), pointers, None)


def _open() -> ctypes.CDLL:
    asked = os.environ.get(LIBRARY)
    for name in (asked,) if asked else _NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise ToolMissing(f"AMD's HIP runtime ({asked or _NAMES[0]}) is not installed here",
                      hint="run this target on a machine with an AMD GPU and ROCm; compiling needs neither")  # fmt: skip


@cache
def driver() -> HipDriver:
    """The one driver of this process."""
    return HipDriver()
