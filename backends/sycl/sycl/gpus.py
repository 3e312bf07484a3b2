"""Which Intel GPUs are here, told by the PCI bus, so that nothing of SYCL is loaded to find that there is none."""

from __future__ import annotations

import os
from pathlib import Path

from portakern import native
from portakern.backend import Target

SYSFS = "PORTAKERN_SYSFS"
"""Another place of ``/sys``."""

INTEL = "0x8086"

NUMBERS = {"pvc": (0x0BD0, 0x0BD4, 0x0BD5, 0x0BD6, 0x0BD7, 0x0BD8, 0x0BD9, 0x0BDA, 0x0BDB, 0x0B69, 0x0B6E)}
"""What the PCI bus calls the GPUs of an instruction set.  Source: Intel Graphics Compiler, inc/common/igfxfmid.h, as other
public code quotes it."""

SILICON = {"max1550": (0x0BD5, 0x0BD6), "max1100": (0x0BD9, 0x0BDA, 0x0BDB)}
"""The same of products.  Source: the names that Intel's drivers give these numbers (not re-read)."""

LOADER = "level_zero"


def on_the_bus() -> tuple[int, ...]:
    """The numbers of all GPUs of Intel that are described here."""
    root = Path(os.environ.get(SYSFS) or "/sys") / "bus" / "pci" / "devices"
    known = {n for numbers in NUMBERS.values() for n in numbers}
    found = []
    for place in sorted(root.glob("*/vendor")):
        if _read(place) == INTEL and (number := int(_read(place.with_name("device")) or "0", 16)) in known:
            found.append(number)
    return tuple(found)


def wanted(target: Target) -> tuple[int, ...]:
    """The numbers that a target's GPU may have."""
    return SILICON.get(target.device.product, NUMBERS.get(target.device.isa, ()))


def words(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"0x{n:04x}" for n in numbers)


def missing(target: Target) -> str:
    """Why no GPU of the target can be used; nothing where one is here and Level Zero can be loaded."""
    here = on_the_bus()
    if not set(here) & set(wanted(target)):
        seen = f"the PCI bus shows {words(here)}" if here else "the PCI bus shows no GPU of Intel that is known here"
        return f"no {target.device.title} is here ({seen})"
    return loader_missing()


def loader_missing() -> str:
    found = native.probe_driver(LOADER)
    if not found.present:
        return f"a GPU is here, and Level Zero's loader is not ({found.error}): install Intel's GPU driver (level-zero)"
    return "" if found.device_count else f"a GPU is here, and Level Zero gives none: {found.error or 'no device'}"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
