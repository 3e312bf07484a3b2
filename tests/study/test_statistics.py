"""Intervals and verdicts."""

from __future__ import annotations

import pytest

from portakern.timing.statistics import Interval, interval, ratio, verdict


def test_an_interval_holds_the_median_and_narrows_with_samples():
    few, many = interval([1, 2, 3, 4, 5]), interval([1, 2, 3, 4, 5] * 40)
    assert few.low <= few.median == 3 <= few.high
    assert many.width < few.width
    assert interval([1, 2, 3]) == interval([1, 2, 3])


def test_the_ratio_is_that_of_pairs():
    """Both slow down together: the ratio of pairs does not see it."""
    ours = [1.0, 2.0, 3.0, 10.0]
    assert ratio([2 * x for x in ours], ours) == Interval(2, 2, 2)


@pytest.mark.parametrize(("low", "high", "says"), [
    (1.1, 1.3, "FASTER"), (0.7, 0.9, "SLOWER"), (0.99, 1.01, "SAME"), (1.001, 1.015, "SAME"), (0.9, 1.1, "UNDECIDED")])
def test_verdicts(low: float, high: float, says: str):
    assert verdict(Interval((low + high) / 2, low, high)) == says
