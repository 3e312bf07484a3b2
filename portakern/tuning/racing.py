"""Who gets samples: candidates race the best so far, are dropped when they are slower, and are sampled on while undecided.

Samples of a race are taken in turns with those of the best, so that what slows the machine down slows both, and verdicts are
the timing core's, with its margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from portakern.errors import PortakernError
from portakern.timing.statistics import bootstrap_ratio, verdict

RUNGS = (8, 8, 16, 32)
"""Samples per contender before each decision."""

FINAL_RUNGS = (30, 60, 120)

MARGIN = 0.01

Samples = Sequence[float]
Compare = Callable[[Samples, Samples, float, int], "Ratio"]


class Measurer(Protocol):
    """Times contenders by name."""

    def measure(self, names: Sequence[str], samples: int) -> Mapping[str, Samples | PortakernError]:
        """Samples in microseconds, as many for each, the i-th of all taken next to each other; or what kept one from it."""
        ...


@dataclass(frozen=True)
class Ratio:
    """How many times as long the other takes, with its interval.  ``verdict`` is about the first: ``FASTER`` where it is
    faster than the other beyond the margin, ``SLOWER``, ``SAME`` or ``UNDECIDED``."""

    value: float
    low: float
    high: float
    verdict: str


def compare(first: Samples, other: Samples, margin: float = MARGIN, seed: int = 0) -> Ratio:
    """The timing core's comparison of samples taken in pairs."""
    value, low, high = bootstrap_ratio(first, other, seed=seed)
    return Ratio(value, low, high, verdict(low, high, margin))


@dataclass
class Standing:
    """How a contender stands.

    ``relative`` is its time as a share of the default's; ``state`` is ``best``, ``slower``, ``same`` (as the best it met),
    ``undecided`` or ``failed``.
    """

    name: str
    relative: float | None = None
    state: str = "undecided"
    median_us: float | None = None
    samples: int = 0
    error: PortakernError | None = None


@dataclass(frozen=True)
class Final:
    """The end of a race: who won, and how it compares with the default.  ``against`` is ``None`` where the default won."""

    winner: str
    median_us: float
    default_us: float
    against: Ratio | None
    ranking: tuple[str, ...]


class Race:
    """Contenders by name against the best so far.

    Args:
        measurer: takes the samples.
        default: the first best, to which all is relative.
        rungs: samples per contender before each decision.
        margin: differences below it are of no interest.
    """

    def __init__(
        self,
        measurer: Measurer,
        default: str,
        rungs: Sequence[int] = RUNGS,
        margin: float = MARGIN,
        seed: int = 0,
        compare: Compare = compare,
    ) -> None:
        self.measurer, self.default, self.best = measurer, default, default
        self.rungs, self.margin, self.seed, self.compare = tuple(rungs), margin, seed, compare
        self.standings: dict[str, Standing] = {default: Standing(default, 1.0, "best")}
        self.spent = 0
        """Samples taken, those of the best included."""

    def enter(self, names: Iterable[str]) -> list[Standing]:
        """Race new contenders against the best; the fastest of those that beat it becomes the best."""
        racing = {n: self.standings.setdefault(n, Standing(n)) for n in names if n != self.best}
        pairs: dict[str, tuple[list[float], list[float]]] = {n: ([], []) for n in racing}
        base, entered = self.standings[self.best], list(racing.values())
        for rung in self.rungs:
            if not racing:
                break
            got = self._measured([self.best, *racing], rung)
            if self.best not in got:
                self._fall_back()
                return entered
            mine = got[self.best]
            base.samples += len(mine)
            base.median_us = float(np.median(mine))
            for name in [n for n in racing if n in got]:
                pairs[name][0].extend(mine)
                pairs[name][1].extend(got[name])
                if self._judge(racing[name], *pairs[name], len(mine)):
                    del racing[name]
            racing = {n: s for n, s in racing.items() if s.state != "failed"}
        self._crown(entered)
        return entered

    def _fall_back(self) -> None:
        """The best can no longer be timed: the default takes its place.  Raises what keeps the default from it."""
        if self.best == self.default:
            raise self.standings[self.default].error or PortakernError("not-timed", "the default cannot be timed any more")
        self.best = self.default

    def _judge(self, standing: Standing, base: Samples, mine: Samples, new: int) -> bool:
        """Whether the contender is decided."""
        ratio = self.compare(base, mine, self.margin, self.seed)
        standing.samples += new
        standing.median_us = float(np.median(mine))
        standing.relative = ratio.value * (self.standings[self.best].relative or 1.0)
        standing.state = {"FASTER": "slower", "SLOWER": "faster", "SAME": "same"}.get(ratio.verdict, "undecided")
        return standing.state != "undecided"

    def _crown(self, entered: Sequence[Standing]) -> None:
        faster = [s for s in entered if s.state == "faster"]
        for s in faster:
            s.state = "undecided"  # among each other
        if faster:
            first = min(faster, key=lambda s: s.relative or 1.0)
            self.standings[self.best].state = "slower"
            self.best, first.state = first.name, "best"

    def _measured(self, names: Sequence[str], samples: int) -> dict[str, Samples]:
        """Samples of all that can be measured; those that cannot are marked, and the others measured again without them."""
        names = list(names)
        while names:
            got = self.measurer.measure(names, samples)
            faults = {n: x for n, x in got.items() if isinstance(x, PortakernError)}
            for name, fault in faults.items():
                self.standings[name].state, self.standings[name].error = "failed", fault
            if not faults:
                self.spent += samples * len(names)
                return {n: x for n, x in got.items() if not isinstance(x, PortakernError)}
            names = [n for n in names if n not in faults]
        return {}

    # ---- the end

    def finalists(self, count: int) -> list[str]:
        """The best and those nearest to it, fastest first; the slower ones only to fill up."""
        able = [s for s in self.standings.values() if s.relative is not None and s.state != "failed"]
        able.sort(key=lambda s: (s.name != self.best, s.state == "slower", s.relative))
        return [s.name for s in able[:count]]

    def final(
        self, names: Sequence[str], rungs: Sequence[int] = FINAL_RUNGS, until: Callable[[], bool] = lambda: False
    ) -> Final:
        """Race ``names`` and the default to a verdict, or to the last rung, or until the time is over.

        Raises the fault of the default where that cannot be measured any more.
        """
        alive = list(dict.fromkeys([self.default, *names]))
        taken: dict[str, list[float]] = {n: [] for n in alive}
        for rung in rungs:
            got = self._measured(alive, rung)
            if self.default not in got:
                raise self.standings[self.default].error or PortakernError("not-timed", "the default cannot be timed any more")
            alive = [n for n in alive if n in got]
            for n in alive:
                taken[n].extend(got[n])
            best = min(alive, key=lambda n: float(np.median(taken[n])))
            # The default stays in to the end, since the verdict is against it.
            alive = [n for n in alive if n in (best, self.default) or self._near(taken[best], taken[n])]
            settled = best == self.default or not self._near(taken[best], taken[self.default])
            if until() or (settled and all(n in (best, self.default) for n in alive)):
                break
        ranking = sorted(alive, key=lambda n: float(np.median(taken[n])))
        winner = ranking[0]
        against = None if winner == self.default else self.compare(taken[winner], taken[self.default], self.margin, self.seed)
        return Final(winner, float(np.median(taken[winner])), float(np.median(taken[self.default])), against, tuple(ranking))

    def _near(self, best: Samples, other: Samples) -> bool:
        """Whether more samples could still show ``other`` to be the faster one by more than the margin, or are of interest."""
        return self.compare(best, other, self.margin, self.seed).verdict == "UNDECIDED"

