"""The CUDA driver by its C interface, which is stable across versions: just what loading and launching needs.

Signatures follow the CUDA Driver API reference.  Opened on first use; nothing here needs a toolkit or a Python binding.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

from portakern.errors import RuntimeFault, ToolMissing

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
# Errors after which the driver answers every further call of this process with the same error.
_FATAL = {214, 700, 701, 702, 713, 714, 715, 716, 717, 718, 719}

_Pointer = ctypes.c_uint64


class Driver:
    """libcuda, initialised.  Raises :class:`ToolMissing` where there is none, or no GPU."""

    def __init__(self) -> None:
        try:
            self._lib = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise ToolMissing(f"the NVIDIA driver is not installed here ({error})",
                              hint="run this target on a machine with an NVIDIA GPU") from None
        status = self._lib.cuInit(0)
        if status:
            raise ToolMissing(f"the NVIDIA driver does not start: {self._name(status)}",
                              hint="is there a GPU, and may this process use it?")
        self.dead = ""

    def call(self, function: str, *args: Any) -> None:
        """Call a function of the driver; raises :class:`RuntimeFault` with its error."""
        if self.dead:
            raise RuntimeFault(f"{function}: an earlier kernel ended this process's use of CUDA ({self.dead})",
                               hint="start a new process", kind="device-lost")
        status = getattr(self._lib, function)(*args)
        if status:
            name = self._name(status)
            if status in _FATAL:
                self.dead = name
            raise RuntimeFault(f"{function}: {name}", kind="device-lost" if status in _FATAL else "")

    def _name(self, status: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._lib.cuGetErrorName(status, ctypes.byref(name))
        self._lib.cuGetErrorString(status, ctypes.byref(text))
        return f"{(name.value or b'error').decode()} ({status}): {(text.value or b'').decode()}"

    # ---- devices

    @cached_property
    def devices(self) -> tuple[tuple[str, tuple[int, int]], ...]:
        """Name and compute capability of every GPU, in the driver's order."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return tuple(self._device(n) for n in range(count.value))

    def _device(self, ordinal: int) -> tuple[str, tuple[int, int]]:
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDeviceGetName", name, len(name), device)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), _CAPABILITY_MAJOR, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), _CAPABILITY_MINOR, device)
        return name.value.decode(), (major.value, minor.value)

    def use(self, ordinal: int) -> None:
        """Make the device's primary context, which frameworks share, this thread's current one."""
        self.call("cuCtxSetCurrent", self._context(ordinal))

    @cache  # noqa: B019 (there is one driver in a process)
    def _context(self, ordinal: int) -> ctypes.c_void_p:
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        return context

    # ---- kernels

    def load(self, cubin: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(cubin))
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        if not self.dead:
            self.call("cuModuleUnload", module)

    def function(self, module: ctypes.c_void_p, name: str, shared_bytes: int) -> ctypes.c_void_p:
        """A kernel of ``module``, allowed ``shared_bytes`` of dynamic shared memory."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared_bytes:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)
        return function

    def launch(self, function: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int], shared_bytes: int, stream: int,
               args: Sequence[Any]) -> None:
        """Launch on ``stream``; ``args`` are ctypes values in the order of the kernel's parameters."""
        pointers = (ctypes.c_void_p * max(1, len(args)))(*(ctypes.addressof(a) for a in args))
        sizes = [ctypes.c_uint(n) for n in (*grid, *block, shared_bytes)]
        self.call("cuLaunchKernel", function, *sizes, ctypes.c_void_p(stream), pointers, None)

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")

    # ---- memory

    def allocate(self, count: int) -> int:
        pointer = _Pointer()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(1, count)))
        return pointer.value

    def free(self, pointer: int) -> None:
        if not self.dead:
            self.call("cuMemFree_v2", _Pointer(pointer))

    def upload(self, pointer: int, host: int, count: int) -> None:
        if count:
            self.call("cuMemcpyHtoD_v2", _Pointer(pointer), ctypes.c_void_p(host), ctypes.c_size_t(count))

    def download(self, host: int, pointer: int, count: int) -> None:
        if count:
            self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(host), _Pointer(pointer), ctypes.c_size_t(count))


_lock = threading.Lock()
_found: list[Driver] = []


def driver() -> Driver:
    """The driver of this process, opened once it is needed."""
    with _lock:
        if not _found:
            _found.append(Driver())
        return _found[0]
