"""A doorbell: counters in memory that both processes see, so that the side that judges can hold its own clock against a call.

The kernel's process asks for new inputs by ``ASKED`` and waits until ``SERVED`` says so; it begins to call when ``GO`` says so
and announces the end by ``ENDED``.  Whatever a kernel writes there, who judges only compares numbers and waits no longer than
its limit.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

import numpy as np

ASKED, BLOCK, SERVED, GO, ENDED, END, FAULT = range(0, 56, 8)
"""Words, each in a cache line of its own.  ``END`` is whether there is no further block, ``FAULT`` where in the memory that is
shared the kernel's process reached for what is not there, counted from 1."""

BYTES = 4096
FIGURES = 64
"""The word at which figures begin: what the last block's calls took, in microseconds."""

_PAUSE_S = 2e-5


class Bell:
    """The first page of memory that is shared."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.words = np.frombuffer(memory, np.uint64, BYTES // 8)
        self.figures = self.words[FIGURES:].view(np.float64)

    def __getitem__(self, word: int) -> int:
        return int(self.words[word])

    def __setitem__(self, word: int, value: int) -> None:
        self.words[word] = value

    def wait(self, word: int, value: int, limit_s: float, spin_s: float = 0.0, pause_s: float = _PAUSE_S,
             alive: Callable[[], bool] = lambda: True) -> bool:  # fmt: skip
        """Whether ``word`` became ``value`` within the limit while the other side was ``alive``.  It is looked at without a
        pause for ``spin_s``, which takes a core, and then after every ``pause_s``."""
        begun = time.monotonic()
        while int(self.words[word]) != value:
            passed = time.monotonic() - begun
            if passed > spin_s:
                if passed > limit_s or not alive():
                    return False
                time.sleep(pause_s)
        return True
