"""What is taken over of a time that a stranger's process gave: figures and short words, of which nothing else follows.

Whoever holds the kernel may send anything.  What a row is judged by (medians that were found consistent, peers, shares of a
roof, where it comes from) is made on the side that judges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from portakern.referee.messages import plain_values

_FIGURES = ("median_us", "ci_low_us", "ci_high_us", "correction_us", "launch_us", "end_to_end_us", "empty_us", "overhead_us")
_QUANTILES = ("10", "25", "75", "90")


def figures(time: Mapping[str, Any]) -> dict[str, Any]:
    """Of a time whose samples and median are consistent; what else is no figure is ``None``."""
    samples = [float(x) for x in time["samples_us"]]
    quantiles = time.get("quantiles_us")
    flags = _flags(time.get("flags"), len(samples))
    suspicions = plain_values(time.get("suspicions"))
    return {
        **{name: _figure(time.get(name)) for name in _FIGURES}, "samples": len(samples), "samples_us": samples,
        "mode": str(plain_values(time.get("mode")) or ""), "flags": flags,
        "quantiles_us": {k: _figure(quantiles.get(k)) for k in _QUANTILES} if isinstance(quantiles, dict) else {},
        "calls_per_sample": int(time["calls_per_sample"]), "throttled": sum(map(bool, flags or ())),
        "blocks": len(samples), "suspicions": [str(s) for s in suspicions] if isinstance(suspicions, list) else [],
        "stopped": str(plain_values(time.get("stopped")) or ""), "clocks": plain_values(time.get("clocks")),
    }  # fmt: skip


def _flags(x: Any, count: int) -> list[int] | None:
    fits = isinstance(x, list) and len(x) == count and all(type(f) is int and 0 <= f < 256 for f in x)
    return x if fits else None


def _figure(x: Any) -> float | None:
    return float(x) if isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) else None
