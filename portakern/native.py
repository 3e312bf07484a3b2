"""The Python face of the native core: the clock, the drivers of the machine, their devices, and prepared calls.

``Device``, ``Module``, ``Kernel``, ``Stream`` and ``Call`` are the native classes themselves (their types are in
``_native.pyi``); they are found through this module, so that it can be imported where portakern was not built.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from portakern.errors import PortakernError

if TYPE_CHECKING:
    from portakern._native import Call as Call
    from portakern._native import Device as Device
    from portakern._native import Kernel as Kernel
    from portakern._native import Module as Module
    from portakern._native import Stream as Stream

_CLASSES = ("Call", "Device", "Kernel", "Module", "Stream")


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(core(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class DriverError(PortakernError):
    """A driver refused or failed.

    ``kind`` is ``no-device`` (no driver, or no such device), ``device-lost`` (this process cannot use the device any
    more), ``timeout`` (a deadline passed; the work still runs), ``unsupported`` (this driver cannot do it), ``invalid``
    (an argument makes no sense) or ``driver``.  The message names the driver's function, the vendor's code and words.
    """

    def __init__(self, kind: str, message: str, hint: str = "", where: str = "") -> None:
        super().__init__(kind, message, hint or _HINTS.get(kind, ""), where)


_HINTS = {
    "no-device": "portakern doctor says which drivers and devices are here",
    "device-lost": "start a new process; the device may be used again from there",
}


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What the driver says about a device; ``None`` stands for unknown.

    Clocks are in kHz and the highest that the driver states; ``units`` are multiprocessors, compute units or cores;
    ``cache_bytes`` is the last level before device memory and ``persisting_bytes`` the part that can be set aside in it;
    ``timer_ns`` the stated resolution of event times; ``flush_bytes`` what one flush of the caches moves;
    ``empty_kernel_ns`` what the vendor's profiler shows for an empty kernel (see docs/timing.md); ``blocking`` says that
    launches have ended when they return; ``host_memory`` that kernels may be given addresses of the host's own memory.
    """

    name: str
    ordinal: int
    arch: str | None = None
    version: str | None = None
    uuid: str | None = None
    units: int | None = None
    clock_khz: int | None = None
    memory_clock_khz: int | None = None
    bus_bits: int | None = None
    shared_bytes: int | None = None
    memory_bytes: int | None = None
    cache_bytes: int | None = None
    persisting_bytes: int | None = None
    timer_ns: int | None = None
    flush_bytes: int | None = None
    empty_kernel_ns: float | None = None
    blocking: bool = False
    host_memory: bool = False


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """How a device is now; ``None`` stands for unknown.  ``reason`` says in the vendor's terms what throttles it."""

    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    throttled: bool | None = None
    reason: str | None = None


# ---- what a prepared call is made of ---------------------------------------------------------------------------------


class PackedArgument(NamedTuple):
    """An argument as the kernel takes it: its bytes, and which kind of value they are (a ``PK_ARG_`` of driver.h)."""

    data: bytes
    kind: int


_VALUE, _POINTER, _FLOAT, _SIGNED = range(4)
_SCALARS = {
    "f64": ("<d", _FLOAT), "f32": ("<f", _FLOAT), "i64": ("<q", _SIGNED), "i32": ("<i", _SIGNED), "i16": ("<h", _SIGNED),
    "i8": ("<b", _SIGNED), "u64": ("<Q", _VALUE), "u32": ("<I", _VALUE), "u16": ("<H", _VALUE), "u8": ("<B", _VALUE),
    "bool": ("<?", _VALUE), "f16": ("<e", _VALUE),
}  # fmt: skip


def pointer(address: int) -> PackedArgument:
    """A pointer to device memory; it gets a slot of its own in the call."""
    return PackedArgument(struct.pack("<Q", address), _POINTER)


def scalar(dtype: str, value: Any) -> PackedArgument:
    """A number by value.

    Args:
        dtype: ``f64 f32 f16 bf16 i64 .. u8 bool``.
        value: anything that converts to a Python number.

    Raises:
        PortakernError: a dtype that kernels are not given by value, or a value outside it.
    """
    try:
        if dtype == "bf16":
            return PackedArgument(_bfloat16(float(value)), _VALUE)
        code, kind = _SCALARS[dtype]
        number = float(value) if code in ("<d", "<f", "<e") else bool(value) if dtype == "bool" else int(value)
        return PackedArgument(struct.pack(code, number), kind)
    except KeyError:
        raise PortakernError("bad-argument", f"a kernel takes no {dtype} by value") from None
    except (struct.error, OverflowError):
        raise PortakernError("bad-argument", f"{value} is no {dtype}") from None


def _bfloat16(value: float) -> bytes:
    """The upper half of the float, rounded to nearest even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if value != value:
        return struct.pack("<H", 0x7FC0)
    return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


def raw(data: bytes) -> PackedArgument:
    """Bytes by value, such as a tensor map of 128 bytes (aligned to 64)."""
    return PackedArgument(bytes(data), _VALUE)


COOPERATIVE = 1
"""Attribute of a launch: all its blocks are resident together."""
OVERLAP_PREVIOUS = 2
"""Attribute of a launch: it may begin before the kernel before it has ended, and waits for it by itself."""


class LaunchSpec(NamedTuple):
    """One launch: grid in blocks, block in threads, cluster in blocks, each (x, y, z); dynamic shared memory in bytes."""

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: Sequence[PackedArgument]
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    attributes: int = 0


class CopySpec(NamedTuple):
    """A copy of ``bytes`` from device address ``from_`` to ``to``.  ``to`` is a pointer slot of the call."""

    to: int
    from_: int
    bytes: int


class FillSpec(NamedTuple):
    """``bytes`` bytes of value ``byte`` from device address ``to`` on.  ``to`` is a pointer slot of the call."""

    to: int
    byte: int
    bytes: int


def open_device(driver: str | Any, ordinal: int = 0, path: str = "") -> Device:
    """The device of a driver; the same object while anything refers to it.

    Args:
        driver: one of :func:`driver_names`, or the capsule of a table as :func:`register_driver` takes it, which then
            need not be registered (and gives another object each time).
        ordinal: which of its devices, counted by the driver.
        path: the library file to open instead of the usual names.

    Raises:
        PortakernError: no driver has this name.
        DriverError: ``no-device``, or the driver's own failure.
    """
    if isinstance(driver, str):
        _known(driver)
    return core().open_device(driver, ordinal, path)


@dataclass(frozen=True, slots=True)
class DriverProbe:
    """What was found of one vendor's driver.

    ``present`` says that its library could be opened; ``device_count`` how many usable devices it reports. ``error``
    says why the library or a device is not there, and is empty if all is well.
    """

    name: str
    title: str
    present: bool
    path: str
    version: str
    device_count: int
    error: str


def core() -> ModuleType:
    """The native module. Raises PortakernError if portakern was not built, as in a bare source checkout."""
    try:
        from portakern import _native
    except ImportError as error:
        raise PortakernError(
            "not-built",
            f"portakern's native module cannot be loaded: {error}",
            hint="install the package: 'pip install .', or 'pip install -e .' to work on the sources",
        ) from error
    return _native  # type: ignore[return-value]


def now_ns() -> int:
    """Monotonic time in nanoseconds since an arbitrary start."""
    return core().now_ns()


def clock_resolution_ns() -> int:
    """The step of the clock as the system states it, in nanoseconds."""
    return core().clock_resolution_ns()


def clock_tick_ns(reads: int = 10_000) -> int:
    """The smallest difference seen between consecutive reads of the clock, in nanoseconds."""
    return core().clock_tick_ns(reads)


def clock_name() -> str:
    """The name of the system's clock in use."""
    return core().clock_name()


def driver_names() -> list[str]:
    """The drivers this process knows, sorted by name."""
    return sorted(core().driver_names())


def probe_driver(name: str, path: str = "") -> DriverProbe:
    """Looks for one driver's library and devices, in this process.

    A broken vendor library may take the process with it; :func:`portakern.cli.doctor.probe_drivers` looks from a child.

    Args:
        name: one of :func:`driver_names`.
        path: the library file to open instead of the usual names.

    Raises:
        PortakernError: no driver has this name.
    """
    _known(name)
    return DriverProbe(**core().probe_driver(name, path))


def _known(name: str) -> None:
    known = driver_names()
    if name not in known:
        raise PortakernError("unknown-driver", f"no driver is named {name!r}", hint=f"known: {', '.join(known)}")


def register_driver(table: Any) -> None:
    """Adds the driver of a backend from elsewhere.

    Args:
        table: a capsule named ``portakern.driver`` that holds a ``pk_driver`` (see ``portakern/driver.h``).
    """
    core().register_driver(table)


def driver_table(name: str) -> Any:
    """A driver's table of functions, for callers in C: a capsule named ``portakern.driver`` (see ``portakern/driver.h``).

    Raises:
        PortakernError: no driver has this name.
    """
    _known(name)
    return core().driver_table(name)
