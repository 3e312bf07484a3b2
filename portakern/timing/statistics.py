"""Medians with bootstrap intervals, and what two sets of paired samples say of each other.

The percentile bootstrap is that of Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 1000
LEVEL = 0.95
SAME_WITHIN = 0.02
"""Ratios closer to 1 than this are of no practical interest: an interval inside says SAME."""


@dataclass(frozen=True)
class Interval:
    """A median with the bounds of its 95% bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The interval's width as a share of the median."""
        return (self.high - self.low) / self.median if self.median else float("inf")


def interval(samples: Sequence[float], seed: int = 0) -> Interval:
    """The median of ``samples`` (at least one) and its interval; the same samples always give the same interval."""
    import numpy as np

    values = np.asarray(samples, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    medians = np.median(values[picks], axis=1)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(medians, (tail, 1 - tail))
    return Interval(float(np.median(values)), float(low), float(high))


def ratio(peer: Sequence[float], ours: Sequence[float]) -> Interval:
    """How many times as long the peer takes: the median of the ratios of samples taken as pairs."""
    return interval([p / o for p, o in zip(peer, ours, strict=True)])


def verdict(times_as_fast: Interval) -> str:
    """``FASTER``, ``SLOWER``, ``SAME`` or ``UNDECIDED``, for us against the peer."""
    low, high = times_as_fast.low, times_as_fast.high
    if low >= 1 - SAME_WITHIN and high <= 1 + SAME_WITHIN:
        return "SAME"
    if low > 1:
        return "FASTER"
    if high < 1:
        return "SLOWER"
    return "UNDECIDED"
