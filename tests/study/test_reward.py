"""Rewards are functions of a row, as those who published them define them."""

from __future__ import annotations

import pytest

from portakern.errors import UsageError
from portakern.study.reward import REWARDS, hints
from portakern.study.row import Row

pytestmark = pytest.mark.quick

PEERS = [{"name": "torch.eager", "ratio": 2.5, "ci_low": 2.25, "ci_high": 2.75}, {"name": "numpy", "ratio": 0.5, "ci_low": 0.4},
         {"name": "torch.compile", "error": "not here"}]  # fmt: skip
TIMED = Row("softmax", "cuda:h200", evidence="timed", correct=True, resources={"spills": 0, "occupancy": 0.75},
            time={"median_us": 4.0, "peers": PEERS, "roofline": {"share_of_measured_copy": 0.8, "share_of_stated_peak": 0.7}})
WRONG = TIMED.but(correct=False, error={"kind": "incorrect", "message": "", "hint": ""})
UNTIMED = TIMED.but(time=None, evidence="simulated")
UNCOMPILED = Row("softmax", "cuda:h200", evidence="emitted")


@pytest.mark.parametrize(("name", "options", "timed"), [
    ("correctness", {}, 1.0), ("speedup", {}, 2.5), ("speedup", {"peer": "numpy"}, 0.5), ("speedup", {"peer": "absent"}, 0.0),
    ("sure_speedup", {}, 2.25), ("fast_p", {}, 1.0), ("fast_p", {"p": 2.5}, 0.0), ("fast_p", {"p": 0.0}, 1.0),
    ("kevin", {}, 2.8),
    ("kernelgym", {}, 1.0), ("kernelgym", {"peer": "numpy"}, 0.5), ("kernelgym", {"coverage": 0.5, "weight": 0.4}, 1.2),
    ("kernelgym_speedup", {"high": 2.0}, 1.5), ("kernelgym_steps", {}, 0.8), ("kernelgym_steps", {"peer": "numpy"}, -0.1),
    ("share_of_roof", {}, 0.8), ("unhindered", {}, 1.0)])  # fmt: skip
def test_a_timed_row(name: str, options: dict, timed: float):
    assert TIMED.reward(name, **options) == pytest.approx(timed)


@pytest.mark.parametrize("name", list(REWARDS))
def test_nothing_wrong_earns_more_than_anything_right(name: str):
    assert WRONG.reward(name) <= 0 and UNCOMPILED.reward(name) <= WRONG.reward(name) < TIMED.reward(name)
    assert UNTIMED.reward(name) <= TIMED.reward(name)


def test_what_is_not_known_earns_nothing():
    assert UNTIMED.reward("speedup") == UNTIMED.reward("share_of_roof") == 0 and UNTIMED.reward("kernelgym") == 0.5
    assert UNTIMED.reward("fast_p", p=0.0) == 1 and UNTIMED.reward("fast_p") == 0
    assert TIMED.but(resources=None).reward("unhindered") == 0


def test_hints_say_what_the_row_knows():
    slow = TIMED.but(resources={"spills": 12, "scratch_bytes": 48, "occupancy": 0.25, "limiter": "registers"},
                     time={**(TIMED.time or {}), "roofline": {"share_of_measured_copy": 0.1, "limiter": "memory"}})
    assert len(hints(slow)) == 4 and "12 registers" in hints(slow)[0] and not hints(TIMED)
    assert slow.reward("unhindered") == 0


def test_a_name_or_option_that_is_none_is_said():
    for name, options in (("best", {}), ("fast_p", {"q": 1})):
        with pytest.raises(UsageError):
            TIMED.reward(name, **options)
