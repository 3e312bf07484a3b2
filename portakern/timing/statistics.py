"""Medians, their bootstrap intervals, and verdicts: the native core's, as functions of plain sequences.

The interval is the percentile bootstrap of Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13, with
a seeded generator: the same samples always give the same interval.
"""

from __future__ import annotations

from collections.abc import Sequence

from portakern.native import core

RESAMPLES = 1000
CONFIDENCE = 0.95
MARGIN = 0.01
"""Ratios closer to 1 than this are of no practical interest."""


def median(samples: Sequence[float]) -> float:
    """Raises ValueError for no samples."""
    return core().median(samples)


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of the samples lie, interpolated linearly between neighbours."""
    return core().quantile(samples, share)


def bootstrap_median(samples: Sequence[float], confidence: float = CONFIDENCE, seed: int = 0,
                     resamples: int = RESAMPLES) -> tuple[float, float]:  # fmt: skip
    """The interval (low, high) that holds the median with ``confidence``."""
    return core().bootstrap_median(samples, confidence, seed, resamples)


def bootstrap_ratio(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE, seed: int = 0,
                    resamples: int = RESAMPLES) -> tuple[float, float, float]:  # fmt: skip
    """median(b) / median(a) with its interval, as (ratio, low, high).

    ``a[i]`` and ``b[i]`` were taken in the same block and are drawn together: what slows both down does not count.
    """
    return core().bootstrap_ratio(a, b, confidence, seed, resamples)


def verdict(low: float, high: float, margin: float = MARGIN) -> str:
    """What an interval of the ratio b / a says of a.

    ``FASTER`` if all of it lies above 1 + margin, ``SLOWER`` if all lies below 1 / (1 + margin), ``SAME`` if it lies
    between these, else ``UNDECIDED``.
    """
    return core().verdict(low, high, margin)
