"""The Python face of the native core: the clock and the drivers of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from portakern.errors import PortakernError


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
    known = driver_names()
    if name not in known:
        raise PortakernError("unknown-driver", f"no driver is named {name!r}", hint=f"known: {', '.join(known)}")
    return DriverProbe(**core().probe_driver(name, path))


def register_driver(table: Any) -> None:
    """Adds the driver of a backend from elsewhere.

    Args:
        table: a capsule named ``portakern.driver`` that holds a ``pk_driver`` (see ``portakern/driver.h``).
    """
    core().register_driver(table)
