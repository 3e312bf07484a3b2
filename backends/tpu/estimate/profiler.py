"""The process that profiles: one child with libtpu's profile switched on, kept between calls, replaced when it aborts."""

from __future__ import annotations

import re
import threading
from typing import Any

from portakern.errors import PortakernError
from portakern.tools.workers import WorkerFault, WorkerPool

from ..trace.environment import ENVIRONMENT

TIMEOUT_S = 240.0
IMPATIENT_S = 120.0
"""After which a profile of fewer steps is tried, where there is one: libtpu takes ten times as long for some code as for other,
blocks of an operand that XLA keeps in VMEM among it."""

MEMORY = 12 << 30
"""Bytes that the child may have: unrolled profiles of long loops grow without end."""


class Slow(PortakernError):
    """A profile that was not done in time."""


class Profiler:
    """Calls functions of :mod:`.worker` in the child, one at a time.

    Args:
        detailed: whether timelines of kernels are written: only this can extrapolate, and it takes longer.
    """

    def __init__(self, detailed: bool) -> None:
        self._environment = {**ENVIRONMENT, **({"PORTAKERN_TPU_PROFILE_DETAILED": "1"} if detailed else {})}
        self._pool: WorkerPool | None = None
        self._lock = threading.Lock()

    def call(self, function: str, *args: Any, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Raises :class:`PortakernError` of kind ``no-estimate`` where the child ended, with what it said last; a
        :class:`Slow` one where it had to be ended."""
        with self._lock:
            if self._pool is None:
                self._pool = WorkerPool(1, env=self._environment, memory_bytes=MEMORY)
            try:
                return self._pool.call(f"{__package__}.worker:{function}", *args, timeout_s=timeout_s)
            except WorkerFault as fault:
                raise (Slow if fault.kind == "timeout" else PortakernError)(
                    "no-estimate",
                    f"libtpu's profile ended: {_reason(fault)}",
                    hint="the kernel may still compile; smaller shapes profile faster",
                ) from None

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None


def _reason(fault: WorkerFault) -> str:
    """What libtpu said last, where it ended the process: its own words say which operation it cannot model."""
    failed = re.search(r"Static LLO profiling of (\S+) failed: \w+: (.*)", fault.log)
    if failed:
        return f"it cannot model {failed[1]} ({failed[2]})"
    last = next((x for x in reversed(fault.log.splitlines()) if "Check fail" in x), "")
    return f"{fault.message}{': ' + last[:200] if last else ''}"
