"""Which of two results is nearer to what no rounding touched."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.check.nearer import is_farther

pytestmark = pytest.mark.quick

EXACT = np.linspace(1.0, 2.0, 1000).reshape(10, 100)


@pytest.mark.parametrize(("ours", "theirs", "farther"), [(0.2, 0.15, False), (0.5, 0.15, True), (0.01, 0.0, False)])
def test_twice_as_far_is_no_fault(ours: float, theirs: float, farther: bool) -> None:
    assert bool(is_farther(EXACT + ours, EXACT - theirs, EXACT, ("bf16",))) == farther


def test_one_nan_that_nobody_else_has_is_a_fault() -> None:
    ours = EXACT.copy()
    ours[3, 4] = np.nan
    assert "infinitely far" in is_farther(ours, EXACT + 1.0, EXACT, ("bf16",))
    assert not is_farther(ours, ours, EXACT, ("bf16",))


@pytest.mark.parametrize(("count", "off", "farther"), [(3, 1, True), (1000, 4, False), (1000, 5, True)])
def test_a_few_of_many_whole_numbers_are_chosen_by_chance(count: int, off: int, farther: bool) -> None:
    exact = np.arange(count)
    ours = exact + (exact < off)
    assert bool(is_farther(ours, exact, exact, ("bf16",))) == farther
