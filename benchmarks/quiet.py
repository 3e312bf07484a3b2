"""How quiet the machine was: what other processes took of its cores meanwhile (Linux)."""

from __future__ import annotations

import os
import time
from pathlib import Path


class Others:
    """Watches from its making on."""

    def __init__(self) -> None:
        self._busy, self._began = self._others(), time.monotonic()

    @staticmethod
    def _others() -> float:
        """Seconds that all cores were busy, less those of this process and its children; /proc/stat, proc(5)."""
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        idle = fields[3] + fields[4]  # idle, waiting for disks
        busy = (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK")
        return busy - sum(os.times()[:4])

    def share(self) -> float:
        """Of all cores, between 0 and 1."""
        passed = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return max(0.0, self._others() - self._busy) / passed

    def __str__(self) -> str:
        return f"other processes took {self.share():.0%} of the cores meanwhile"
