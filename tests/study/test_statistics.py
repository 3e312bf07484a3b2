"""Intervals and verdicts as rows show them."""

from __future__ import annotations

import pytest

from portakern.timing.statistics import bootstrap_median, bootstrap_ratio, median, quantile, verdict


def test_an_interval_holds_the_median_and_narrows_with_samples():
    few, many = bootstrap_median([1, 2, 3, 4, 5]), bootstrap_median([1, 2, 3, 4, 5] * 40)
    assert few[0] <= median([1, 2, 3, 4, 5]) == 3 <= few[1]
    assert many[1] - many[0] < few[1] - few[0]
    assert bootstrap_median([1, 2, 3]) == bootstrap_median([1, 2, 3])
    assert quantile([1, 2, 3, 4, 5], 0.25) == 2


def test_what_slows_both_down_does_not_count():
    ours = [1.0, 2.0, 3.0, 10.0] * 10
    assert bootstrap_ratio(ours, [2 * x for x in ours]) == (2, 2, 2)


@pytest.mark.parametrize(("low", "high", "says"), [
    (1.1, 1.3, "FASTER"), (0.7, 0.9, "SLOWER"), (0.995, 1.005, "SAME"), (1.001, 1.009, "SAME"), (0.9, 1.1, "UNDECIDED"),
    (1.005, 1.02, "UNDECIDED")])  # fmt: skip
def test_verdicts(low: float, high: float, says: str):
    assert verdict(low, high) == says
