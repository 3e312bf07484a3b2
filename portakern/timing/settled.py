"""When enough samples were taken."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.timing.measure import Options
from portakern.timing.statistics import bootstrap_median, bootstrap_ratio, median, verdict


def settled(samples: Sequence[Sequence[float]], o: Options) -> bool:
    """Whether every median is known to ``o.width`` and every verdict of the first against another is, as in the native loop.
    ``samples`` are by contender, those of one number taken in one block."""
    if o.width <= 0 or not all(min(s) > 0 for s in samples):
        return False
    for values in samples:
        low, high = bootstrap_median(values, o.confidence, o.seed)
        if high - low > o.width * median(values):
            return False
    for values in samples[1:]:
        _, low, high = bootstrap_ratio(samples[0], values, o.confidence, o.seed)
        if high - low > o.margin / 2 and verdict(low, high, o.margin) == "UNDECIDED":
            return False
    return True
