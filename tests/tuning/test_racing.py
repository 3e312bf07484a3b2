"""Races on synthetic samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from portakern.errors import PortakernError
from portakern.tuning.racing import RUNGS, Race

pytestmark = pytest.mark.quick


class Sampler:
    def __init__(self, means: Mapping[str, float], noise: float = 0.03, broken: Sequence[str] = (), seed: int = 0) -> None:
        self.means, self.noise, self.broken = means, noise, set(broken)
        self.rng = np.random.default_rng(seed)
        self.taken: dict[str, int] = {}

    def measure(self, names: Sequence[str], samples: int) -> Mapping[str, Sequence[float] | PortakernError]:
        found: dict[str, Sequence[float] | PortakernError] = {}
        for n in names:
            if n in self.broken:
                return {n: PortakernError("timeout", "hangs")}
            self.taken[n] = self.taken.get(n, 0) + samples
            found[n] = list(self.means[n] * self.rng.lognormal(0, self.noise, samples))
        return found


def test_the_faster_one_becomes_the_best_and_slower_ones_are_dropped_early():
    sampler = Sampler({"a": 100, "b": 80, "c": 150, "d": 101})
    race = Race(sampler, "a")
    states = {s.name: s for s in race.enter(["b", "c", "d"])}
    assert race.best == "b" and states["b"].state == "best" and race.standings["a"].state == "slower"
    assert states["c"].state == "slower" and states["c"].samples == RUNGS[0]
    assert states["d"].samples > RUNGS[0], "an undecided one is sampled on"
    assert states["b"].relative == pytest.approx(0.8, rel=0.05)


def test_relative_times_carry_over_to_a_new_best():
    race = Race(Sampler({"a": 100, "b": 50, "c": 60}), "a")
    race.enter(["b"])
    (c,) = race.enter(["c"])
    assert c.relative == pytest.approx(0.6, rel=0.05)


def test_one_that_hangs_is_marked_and_the_others_race_on():
    race = Race(Sampler({"a": 100, "b": 80}, broken=["x"]), "a")
    states = {s.name: s for s in race.enter(["x", "b"])}
    assert states["x"].state == "failed" and states["x"].error is not None
    assert race.best == "b"


@pytest.mark.parametrize("seed", range(8))
def test_the_final_race_is_decided_against_the_default(seed: int):
    sampler = Sampler({"a": 100, "b": 96, "c": 97}, seed=seed)
    race = Race(sampler, "a")
    race.enter(["b", "c"])
    final = race.final(race.finalists(4))
    assert final.winner in ("b", "c") and final.against is not None and final.against.verdict == "FASTER"
    assert final.against.low < 100 / 96 < 100 / 90


def test_the_default_may_win_the_final():
    race = Race(Sampler({"a": 100, "b": 120}), "a")
    race.enter(["b"])
    assert race.final(["b"]).against is None


def test_equal_ones_are_not_called_faster():
    wrong = 0
    for seed in range(20):
        race = Race(Sampler({"a": 100, "b": 100}, seed=seed), "a")
        race.enter(["b"])
        final = race.final(["b"])
        wrong += final.against is not None and final.against.verdict == "FASTER"
    assert wrong <= 1
