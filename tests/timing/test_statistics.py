"""Medians, intervals and verdicts of the native core, on samples whose answers are known."""

from __future__ import annotations

import random
import statistics

import pytest

from portakern.timing import bootstrap_median, bootstrap_ratio, median, quantile, verdict

pytestmark = pytest.mark.quick


def width(interval: tuple[float, float]) -> float:
    return interval[1] - interval[0]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
def test_medians_and_quantiles_are_those_of_the_standard_library(count: int):
    draw = random.Random(count)
    samples = [draw.lognormvariate(0, 1) for _ in range(count)]
    assert median(samples) == pytest.approx(statistics.median(samples))
    if count > 1:
        quarters = statistics.quantiles(samples, n=4, method="inclusive")
        assert [quantile(samples, s) for s in (0.25, 0.5, 0.75)] == pytest.approx(quarters)
    assert (quantile(samples, 0), quantile(samples, 1)) == (min(samples), max(samples))


def test_no_samples_are_refused():
    for function in (median, bootstrap_median):
        with pytest.raises(ValueError, match="no samples"):
            function([])
    with pytest.raises(ValueError, match="same number"):
        bootstrap_ratio([1.0], [1.0, 2.0])


def test_an_interval_holds_the_median_and_narrows_with_samples():
    few, many = bootstrap_median([1, 2, 3, 4, 5]), bootstrap_median([1, 2, 3, 4, 5] * 40)
    assert few[0] <= 3 <= few[1]
    assert width(many) < width(few)


def test_the_same_samples_and_seed_give_the_same_interval():
    draw = random.Random(3)
    samples = [draw.gauss(10, 1) for _ in range(37)]
    intervals = [bootstrap_median(samples, seed=seed, resamples=50) for seed in (5, 5, 6, 7, 8)]
    assert intervals[0] == intervals[1] and len(set(intervals)) > 1


def test_intervals_hold_the_true_median_as_often_as_they_say():
    """300 experiments of 25 samples: an interval of 95% misses between 1% and 10% of them (the bootstrap is approximate)."""
    draw = random.Random(1)
    misses = 0
    for i in range(300):
        low, high = bootstrap_median([draw.gauss(0, 1) for _ in range(25)], 0.95, i, 400)
        misses += not low <= 0 <= high
    assert 3 <= misses <= 30


def test_the_bootstrap_agrees_with_a_plain_one():
    """The quick way of counting draws by rank gives what sorting every draw gives."""
    draw = random.Random(2)
    samples = [draw.expovariate(1) for _ in range(30)]
    plain = sorted(statistics.median(draw.choices(samples, k=30)) for _ in range(4000))
    low, high = bootstrap_median(samples, 0.9, 0, 4000)
    assert low == pytest.approx(plain[200], rel=0.15) and high == pytest.approx(plain[3800], rel=0.15)


def test_the_ratio_is_that_of_pairs():
    """Both slow down together: the interval of the ratio does not see it."""
    ours = [1.0, 2.0, 3.0, 10.0] * 5
    assert bootstrap_ratio(ours, [2 * x for x in ours]) == (2, 2, 2)


def test_the_ratio_of_unrelated_samples_is_uncertain():
    draw = random.Random(4)
    ours, theirs = ([draw.gauss(10, 2) for _ in range(20)] for _ in range(2))
    ratio, low, high = bootstrap_ratio(ours, theirs)
    assert low < ratio < high and high - low > 0.02


def test_a_difference_of_two_percent_in_quiet_samples_is_found():
    draw = random.Random(5)
    ours = [draw.gauss(100, 0.3) for _ in range(40)]
    theirs = [draw.gauss(102, 0.3) for _ in range(40)]
    assert verdict(*bootstrap_ratio(ours, theirs)[1:]) == "FASTER"
    assert verdict(*bootstrap_ratio(theirs, ours)[1:]) == "SLOWER"


@pytest.mark.parametrize(("low", "high", "says"), [
    (1.1, 1.3, "FASTER"), (0.7, 0.9, "SLOWER"), (0.991, 1.01, "SAME"), (1.001, 1.009, "SAME"), (0.9, 1.1, "UNDECIDED"),
    (1.005, 1.3, "UNDECIDED"), (0.7, 0.995, "UNDECIDED"), (float("nan"), float("nan"), "UNDECIDED")])
def test_verdicts(low: float, high: float, says: str):
    assert verdict(low, high) == says


def test_the_margin_moves_the_verdict():
    assert verdict(1.02, 1.03, margin=0.01) == "FASTER"
    assert verdict(1.02, 1.03, margin=0.05) == "SAME"
