"""The SYCL runtime of the intel-sycl-rt wheel: the C interface of ``shim/shim.cpp`` through ctypes, and the native driver
``sycl`` of ``shim/driver.cpp``.

The shim is compiled on first use by the host's C++ compiler (g++, clang++ or the zig of the ziglang wheel) and cached.
The wheel's libraries have no search path that leads to each other, so they are loaded by their absolute path first.
"""

from __future__ import annotations

import ctypes as c
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from portakern import native
from portakern.errors import RuntimeFault, ToolMissing
from portakern.tools.cache import Cache, digest
from portakern.tools.process import run_tool

from ..opencl.platforms import intel_library, show_drivers
from . import gpus

INSTALL = "pip install 'portakern[sycl]'"
PACKAGE = "intel-sycl-rt"
SHIM = Path(__file__).resolve().parent.parent / "shim"
SOURCES = ("shim.cpp", "driver.cpp")
_PRELOAD = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so", "libOpenCL.so.1")
_TIMEOUT_S = 180.0


@cache
def prefix() -> Path | None:
    """The folder under which the wheel put ``lib/libsycl.so.N`` and ``include``."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.startswith("libsycl.so.") and file.name.count(".") == 2:
            path = Path(str(file.locate())).resolve()
            return path.parent.parent if path.exists() else None
    return None


def runtime_version() -> str:
    return importlib.metadata.version(PACKAGE)


def sycl_library(root: Path) -> Path:
    return next(p for p in sorted((root / "lib").glob("libsycl.so.*")) if p.name.count(".") == 2)


def host_compiler() -> list[str] | None:
    """The command of a C++ compiler for the shim."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        path = shutil.which(name) if name else None
        if path:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++"]
    return None


def unavailable() -> str | None:
    """Why SYCL cannot be used here; ``None`` where it can."""
    if prefix() is None:
        return f"{PACKAGE} is not installed: {INSTALL}"
    if intel_library() is None:
        return f"intel-opencl-rt, the CPU device of SYCL, is not installed: {INSTALL}"
    if host_compiler() is None:
        return "no C++ compiler was found (g++, clang++ or zig) to build the interface to SYCL: pip install ziglang"
    return None


def shim_file() -> Path:
    """The compiled shim in the cache of this process."""
    key, cache_ = _shim_key(), Cache()
    found = cache_.file(key, ".so")
    if found is None:
        cache_.put(key, shim())
        found = cache_.file(key, ".so")
    assert found is not None
    return found


@cache
def shim() -> bytes:
    """The shim, compiled now where the cache does not hold it."""
    key, cache_ = _shim_key(), Cache()
    if (found := cache_.get(key)) is None:
        cache_.put(key, found := _compiled_shim())
    return found


ALWAYS = ("-fno-builtin",)
"""Options of every kernel.  A loop that stores zeros must stay one: where it became memset, SPIR-V copies a variable of zeros,
and the CPU's compiler then read zeros where products had been added since (intel-opencl-rt 2026.2.0)."""

_FLAGS = ("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-DCL_TARGET_OPENCL_VERSION=300")


def _tools() -> tuple[Path, list[str]]:
    root, compiler = prefix(), host_compiler()
    if root is None or compiler is None:
        raise ToolMissing(unavailable() or "SYCL is not available", hint=INSTALL)
    return root, compiler


def _shim_key() -> str:
    root, compiler = _tools()
    files = (*sorted(SHIM.iterdir()), *sorted((driver_headers() / "portakern").iterdir()))
    texts = [x.read_bytes() for x in files if x.is_file()]
    return digest("sycl shim", *texts, runtime_version(), list(_FLAGS), str(root), compiler)


def _compiled_shim() -> bytes:
    root, compiler = _tools()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "shim.so"
        command = [*compiler, *_FLAGS, *(str(SHIM / x) for x in SOURCES), "-o", str(out), f"-I{root / 'include'}",
                   f"-I{driver_headers()}", f"-L{root / 'lib'}", f"-l:{sycl_library(root).name}", "-ldl"]
        run_tool(command, timeout_s=_TIMEOUT_S).checked("the interface to the SYCL runtime",
                                                        hint="set CXX to a C++17 compiler that works")
        return out.read_bytes()


def driver_headers() -> Path:
    """The folder with ``portakern/driver.h``, which lies beside the native module."""
    return Path(str(native.core().__file__)).parent / "include"


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "pk_error": (c.c_char_p, []),
    "pk_devices": (c.c_int, []),
    "pk_describe": (c.c_int, [c.c_int, c.c_char_p, c.c_size_t]),
    "pk_queue": (c.c_void_p, [c.c_int]),
    "pk_compile": (c.c_void_p, [c.c_void_p, c.c_char_p, c.POINTER(c.c_char_p), c.c_int]),
    "pk_bytes_log": (c.c_char_p, [c.c_void_p]),
    "pk_bytes_data": (c.c_void_p, [c.c_void_p]),
    "pk_bytes_size": (c.c_size_t, [c.c_void_p]),
    "pk_bytes_free": (None, [c.c_void_p]),
    "pk_program": (c.c_void_p, [c.c_void_p, c.c_char_p, c.c_size_t, c.c_int, c.c_char_p]),
    "pk_program_free": (None, [c.c_void_p]),
    "pk_program_binary": (c.c_int64, [c.c_void_p, c.c_void_p]),
    "pk_kernel": (c.c_void_p, [c.c_void_p, c.c_void_p, c.c_char_p]),
    "pk_kernel_free": (None, [c.c_void_p]),
    "pk_kernel_facts": (c.c_int, [c.c_void_p, c.c_void_p, c.POINTER(c.c_uint64)]),
    "pk_table": (c.c_void_p, [c.c_int64]),
    "pk_gpus": (c.c_int, [c.POINTER(c.c_uint32), c.c_int]),
    "pk_gpu_kernels": (None, [c.c_char_p, c.c_size_t]),
}


@cache
def library() -> c.CDLL:
    """The shim, loaded once per process.  Raises :class:`ToolMissing`, :class:`CompileError` or :class:`RuntimeFault`."""
    reason = unavailable()
    root = prefix()
    if reason is not None or root is None:
        raise ToolMissing(f"SYCL cannot be used: {reason}", hint=INSTALL)
    show_drivers(systems=False)
    os.environ.setdefault("ONEAPI_DEVICE_SELECTOR", "opencl:cpu;level_zero:gpu" if gpus.on_the_bus() else "opencl:cpu")
    path = shim_file()
    try:
        for name in (*_PRELOAD, sycl_library(root).name):
            c.CDLL(str(root / "lib" / name), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        shim = c.CDLL(str(path))
    except OSError as error:
        raise RuntimeFault(f"the SYCL runtime cannot be loaded: {error}", hint=f"reinstall it: {INSTALL}") from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(shim, name)
        function.restype, function.argtypes = result, arguments
    return shim


def reason() -> str:
    """What the last call of this thread failed with."""
    return library().pk_error().decode(errors="replace")


@cache
def queue() -> int:
    """The queue of the first CPU device; one per process."""
    shim = library()
    if shim.pk_devices() < 1:
        raise ToolMissing(f"SYCL finds no CPU device here ({reason()})", hint=INSTALL)
    made = shim.pk_queue(0)
    if not made:
        raise RuntimeFault(f"the SYCL CPU device cannot be opened: {reason()}")
    return made


@cache
def device() -> native.Device:
    """The first CPU device as the native core has it.

    Raises:
        ToolMissing: SYCL cannot be used here.
        DriverError: it finds no CPU device.
    """
    _register()
    return native.open_device(DRIVER)


@cache
def gpu(numbers: tuple[int, ...]) -> native.Device:
    """The first GPU of the Level Zero adapter that the PCI bus calls by one of these numbers.

    Raises:
        ToolMissing: SYCL cannot be used here, or shows no such GPU.
        DriverError: the GPU cannot be opened.
    """
    shim = library()
    _register()
    room = (c.c_uint32 * 64)()
    found = tuple(room[: max(shim.pk_gpus(room, len(room)), 0)])
    for place, number in enumerate(found):
        if number in numbers:
            return native.open_device(DRIVER, max(shim.pk_devices(), 0) + place)
    raise ToolMissing(f"SYCL's Level Zero adapter shows no GPU of {gpus.words(numbers)}: "
                      f"found {gpus.words(found) or reason() or 'none'}",
                      hint="may this process open /dev/dri, and does ONEAPI_DEVICE_SELECTOR leave level_zero:gpu?")


@cache
def _register() -> None:
    """Hands the driver to the native core."""
    cache_bytes = native.open_device("host").facts.cache_bytes or 0
    make = c.pythonapi.PyCapsule_New
    make.restype, make.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
    native.register_driver(make(library().pk_table(cache_bytes), _CAPSULE, None))


def give_gpu_kernels(spirv: bytes) -> None:
    """The driver's own kernels for GPUs (shim/own_gpu.cpp), which flush and calibrate."""
    library().pk_gpu_kernels(spirv, len(spirv))


_CAPSULE = b"portakern.driver"
DRIVER = "sycl"


@cache
def device_name() -> str:
    """The CPU device as its driver names it."""
    queue()
    text = c.create_string_buffer(512)
    if library().pk_describe(0, text, len(text)):
        raise RuntimeFault(f"the SYCL CPU device cannot be asked its name: {reason()}")
    name, platform, driver = text.value.decode(errors="replace").split("\t")
    return f"{name.strip()} ({platform} {driver} through SYCL {runtime_version()})"


def compile_to_spirv(source: str, options: tuple[str, ...] = ()) -> tuple[bytes, str]:
    """The SPIR-V of the kernels in ``source`` and the compiler's log.  Raises :class:`RuntimeFault` with the log."""
    shim = library()
    given = [o.encode() for o in (*ALWAYS, *options)]
    made = shim.pk_compile(queue(), source.encode(), (c.c_char_p * len(given))(*given), len(given))
    if not made:
        raise RuntimeFault(reason())
    try:
        data = c.string_at(shim.pk_bytes_data(made), shim.pk_bytes_size(made))
        return spirv_of(data), (shim.pk_bytes_log(made) or b"").decode(errors="replace").strip()
    finally:
        shim.pk_bytes_free(made)


_MAGIC = b"\x03\x02\x23\x07"


def spirv_of(data: bytes) -> bytes:
    """The SPIR-V module inside a SYCLBIN: it starts with its magic number, and each instruction names its length."""
    start = data.find(_MAGIC)
    if start < 0:
        raise RuntimeFault("the SYCL compiler gave no SPIR-V", hint="a kernel must be a free function with nd_range_kernel")
    position = start + 5 * 4
    while position + 4 <= len(data) and data[position : position + 4] != _MAGIC:
        words = int.from_bytes(data[position + 2 : position + 4], "little")
        if words == 0:
            break
        position += 4 * words
    return data[start:position]


class DeviceProgram:
    """A program of the CPU device, from SPIR-V or from machine code taken from an earlier one."""

    def __init__(self, data: bytes, spirv: bool) -> None:
        shim = library()
        self.handle = shim.pk_program(queue(), data, len(data), int(spirv), b"")
        if not self.handle:
            raise RuntimeFault(f"the program cannot be loaded: {reason()}", hint="clear the cache and build it again")

    def machine_code(self) -> bytes:
        shim = library()
        size = shim.pk_program_binary(self.handle, None)
        if size < 0:
            raise RuntimeFault(f"the machine code cannot be read: {reason()}")
        out = c.create_string_buffer(size)
        shim.pk_program_binary(self.handle, out)
        return out.raw

    def kernel(self, name: str) -> int:
        """The kernel of a free function; the compiler puts a prefix before its name."""
        shim = library()
        made = shim.pk_kernel(queue(), self.handle, f"__sycl_kernel_{name}".encode())
        if not made:
            raise RuntimeFault(f"{name}: {reason()}")
        return made

    def facts(self, kernel: int) -> dict[str, int]:
        values = (c.c_uint64 * 3)()
        if library().pk_kernel_facts(queue(), kernel, values):
            raise RuntimeFault(f"the kernel cannot be asked what it uses: {reason()}")
        return {"private": values[0], "local": values[1], "multiple": values[2]}
