"""Families of numbers such as given ones are, of arrays that are looked at part by part."""

from __future__ import annotations

import numpy as np
import pytest

from portakern.spec import inputs
from portakern.spec.inputs import Held, Integers, Normal, Uniform, like

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("at_once", [3, 1 << 22])
def test_parts_say_what_the_whole_says(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(inputs, "_AT_ONCE", at_once)
    values = np.random.default_rng(0).standard_normal((13, 7)).astype(np.float32) * 3 + 1
    family = like(values)
    assert isinstance(family, Normal)
    assert (family.scale, family.mean) == pytest.approx((values.std(dtype=np.float64), values.mean(dtype=np.float64)))
    assert like(np.abs(values)) == Uniform(float(np.abs(values).min()), float(values.max()))
    assert like(np.array([3, 9, 1, 4])) == Integers(1, 10)
    assert isinstance(like(np.arange(8)), Held) and not isinstance(like(np.array([0, 1, 2, 2, 5])), Held)
    assert isinstance(like(np.array([1.0, 2, 3, np.nan, 4])), Held) and isinstance(like(np.zeros((0, 3))), Held)
