"""How long threads that could run had no processor, as Linux counts it: other work had it, or a limit of their group kept them
from it.  What a hypervisor took is counted for the whole machine.

Sources: Documentation/scheduler/sched-stats.rst of Linux (``/proc/<pid>/schedstat``), proc_stat(5) (``steal``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

STOLEN = 0.05
"""A hypervisor that takes more than this share of the processors' time lengthens whatever is measured."""


class Waiting:
    """What some processes, and the calling thread, wait from one :meth:`begin` to the next.  Nothing where the system does not
    say: then no delay is excused.

    Args:
        pids: of processes all of whose threads count.
    """

    def __init__(self, pids: Sequence[int] = ()) -> None:
        self._folders = [Path(f"/proc/{pid}/task") for pid in pids]
        self.begin()

    def begin(self) -> None:
        self._before = self._threads()
        self._stolen, self._since = stolen_s(), time.monotonic()

    def waited_us(self) -> float:
        """Microseconds since :meth:`begin`, of all threads together: at least as long as all of them were late."""
        now = self._threads()
        return sum(max(0, ns - self._before.get(name, 0)) for name, ns in now.items()) / 1e3

    def stolen(self) -> bool:
        """Whether a hypervisor took more than :data:`STOLEN` of the machine since :meth:`begin`."""
        passed = (time.monotonic() - self._since) * (os.cpu_count() or 1)
        return stolen_s() - self._stolen > STOLEN * passed

    def _threads(self) -> dict[str, int]:
        """Nanoseconds that each has waited since it began."""
        found = {"": _delay_ns("/proc/thread-self/schedstat")}
        for folder in self._folders:
            try:
                names = os.listdir(folder)
            except OSError:
                continue  # it has ended
            found |= {f"{folder}/{n}": _delay_ns(f"{folder}/{n}/schedstat") for n in names}
        return found


def stolen_s() -> float:
    """Seconds of all processors that a hypervisor gave to others since this machine began."""
    try:
        with open("/proc/stat") as file:
            words = file.readline().split()
        return int(words[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def _delay_ns(file: str) -> int:
    try:
        with open(file) as f:
            return int(f.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
