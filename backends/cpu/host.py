"""What this machine's processor is, read from the operating system."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from portakern.device import Figure


@functools.cache
def processor_name() -> str:
    """The processor's own name for itself, from /proc/cpuinfo; the architecture where there is none."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def figures() -> dict[str, Figure]:
    """Figures of this machine: cores and cache sizes, each with where it was read."""
    found = {"units": Figure(cores(), "cores", "sched_getaffinity of this process")}
    base = Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(base.glob("index*")):
        try:
            level, kind = (index / "level").read_text().strip(), (index / "type").read_text().strip()
            size = _bytes((index / "size").read_text().strip())
        except OSError:
            continue
        if kind in ("Data", "Unified"):
            found[f"l{level}_cache"] = Figure(size, "B", f"Linux, {index}/size")
            found["last_level_cache"] = found[f"l{level}_cache"]
    try:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        found["memory"] = Figure(pages * page, "B", "sysconf(_SC_PHYS_PAGES)")
    except (OSError, ValueError):
        pass
    return found


def _bytes(text: str) -> int:
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)
