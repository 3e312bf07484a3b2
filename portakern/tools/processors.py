"""How many processors this process may use, and how several that run at once share them."""

from __future__ import annotations

import os


def processors() -> int:
    """At least 1; fewer than the machine has where an affinity or a container leaves some out."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_SAID = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""What OpenBLAS takes its number of threads from (its README, "Setting the number of threads using environment variables")."""


def share(at_once: int) -> dict[str, str]:
    """The environment of one of ``at_once`` processes: numpy's matrix products have its share of the processors as threads.

    By itself OpenBLAS has a thread per processor, in each process.  A product ends when the last of its threads has had a
    processor, the others wait in a loop meanwhile, and small products, of which an oracle's loops are full, take many times
    as long.  What the user says stands.
    """
    if at_once < 2 or any(n in os.environ for n in _SAID):
        return {}
    return {_SAID[0]: str(max(1, processors() // at_once))}
