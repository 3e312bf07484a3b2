"""Who proposes the next point of a space.  Each has ``ask()`` and ``tell(point, cost)``; smaller costs are better.

All begin with what the backend lists, so that no budget is too small to beat the default with a listed schedule.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from portakern.ir.schedule import Value
from portakern.tuning.space import Point, Space

EXHAUSTIVE = 150
"""Spaces with at most so many points are tried whole, in the order of the cost model."""

STARTUP = 16
"""Points of the cost model's best that are tried after the listed ones, before the optimiser has its say."""

_SAMPLED = 2000
"""Points of a large space that the cost model is asked about."""

_MISSES = 200


class Proposer(Protocol):
    """Proposes points and learns what became of them."""

    name: str

    def ask(self) -> Point | None:
        """The next point, none twice; ``None`` when there is nothing left."""
        ...

    def tell(self, point: Point, cost: float | None) -> None:
        """What became of a point: its time relative to the default's, or ``None`` for one that failed or was dropped before
        it had a time.  Need not come in the order of asking, nor at all."""
        ...


@dataclass(frozen=True)
class ProposerChoice:
    """What :func:`proposer_for` decided and why, in words for the user."""

    proposer: Proposer
    why: str


def proposer_for(space: Space, seed: int = 0, name: str = "auto") -> ProposerChoice:
    """The proposer that fits: everything where the space is small, optuna's TPE where it is installed, else random.

    Args:
        name: ``auto``, ``exhaustive``, ``random`` or ``tpe``.
    """
    if name == "exhaustive" or (name == "auto" and space.size <= EXHAUSTIVE):
        return ProposerChoice(Exhaustive(space), f"all {space.size} points in the order of the cost model")
    if name == "tpe" or (name == "auto" and importlib.util.find_spec("optuna") is not None):
        return ProposerChoice(Tpe(space, seed), f"optuna's TPE, seed {seed}")
    missing = "" if name == "random" else "; pip install 'portakern[tune]' brings an optimiser"
    return ProposerChoice(Random(space, seed), f"at random, seed {seed}{missing}")


class _Listed:
    """What proposers share: the listed points first, no point twice."""

    name = ""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._seen: set[Point] = set()
        self._points = self._order()

    def _order(self) -> Iterator[Point]:
        raise NotImplementedError

    def ask(self) -> Point | None:
        for point in self._points:
            if point not in self._seen:
                self._seen.add(point)
                return point
        return None

    def tell(self, point: Point, cost: float | None) -> None:
        pass


def _ranked(space: Space, points: list[Point]) -> list[Point]:
    """By the cost model, where it has an answer; else as they come."""
    costs = {p: space.cost(p) for p in points}
    return sorted(points, key=lambda p: costs[p] or 0.0)


class Exhaustive(_Listed):
    name = "exhaustive"

    def _order(self) -> Iterator[Point]:
        yield from self.space.listed()
        yield from _ranked(self.space, list(self.space.all()))


class Random(_Listed):
    """Points drawn evenly from those the device can hold."""

    name = "random"

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        super().__init__(space)

    def _order(self) -> Iterator[Point]:
        yield from self.space.listed()
        misses = 0
        while misses < _MISSES:
            point = self.space.random(self._rng)
            if point in self._seen:
                misses += 1
                continue
            misses = 0
            yield point


class Tpe(_Listed):
    """optuna's tree-structured Parzen estimator through its ask-and-tell interface."""

    name = "tpe"

    def __init__(self, space: Space, seed: int = 0) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna: Any = optuna
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP // 2, multivariate=False, constant_liar=True)
        self._study = optuna.create_study(direction="minimize", sampler=sampler)
        self._trials: dict[Point, Any] = {}
        self._rng = random.Random(seed)
        super().__init__(space)

    def _order(self) -> Iterator[Point]:
        yield from self.space.listed()
        drawn = list(dict.fromkeys(self.space.random(self._rng) for _ in range(_SAMPLED)))
        possible = [p for p in drawn if not self.space.refused(p)]
        if possible and self.space.cost(possible[0]) is not None:
            yield from _ranked(self.space, possible)[:STARTUP]
        misses = 0
        while misses < _MISSES:
            trial = self._study.ask()
            point = self.space.point({n: self._suggest(trial, n, v) for n, v in self.space.parameters.items()})
            if point not in self._seen:
                misses, self._trials[point] = 0, trial
                yield point
                continue
            # It comes back to what is good: what is new is sought beside it.
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            near = self._beside(point)
            misses = misses + 1 if near is None else 0
            if near is not None:
                yield near

    def _beside(self, point: Point) -> Point | None:
        """A new point near one that was tried: one parameter changed, or two, or any; ``None`` where none is found."""
        values = self.space.values(point)
        for changes in (1,) * 16 + (2,) * 16 + (len(values),) * 16:
            names = self._rng.sample(sorted(values), min(changes, len(values)))
            moved = self.space.point({**values, **{n: self._rng.choice(self.space.parameters[n]) for n in names}})
            if moved not in self._seen:
                return moved
        return None

    def _distribution(self, values: tuple[Value, ...]) -> Any:
        """Numbers by their place in order, so that neighbours are near; anything else as a category."""
        if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            return self._optuna.distributions.IntDistribution(0, len(values) - 1)
        return self._optuna.distributions.CategoricalDistribution(values)

    def _suggest(self, trial: Any, name: str, values: tuple[Value, ...]) -> Value:
        distribution = self._distribution(values)
        if hasattr(distribution, "choices"):
            return trial.suggest_categorical(name, values)
        return values[trial.suggest_int(name, 0, len(values) - 1)]

    def tell(self, point: Point, cost: float | None) -> None:
        trial = self._trials.pop(point, None)
        if trial is not None:
            if cost is None:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            else:
                self._study.tell(trial, cost)
        elif cost is not None and self._in_space(point):
            self._study.add_trial(self._known(point, cost))

    def _in_space(self, point: Point) -> bool:
        values = self.space.values(point)
        return all(values.get(n) in choices for n, choices in self.space.parameters.items())

    def _known(self, point: Point, cost: float) -> Any:
        """A point that was not the optimiser's idea, as a finished trial of it."""
        values = self.space.values(point)
        kinds = {n: self._distribution(v) for n, v in self.space.parameters.items()}
        params = {n: values[n] if hasattr(kinds[n], "choices") else self.space.parameters[n].index(values[n]) for n in kinds}
        return self._optuna.trial.create_trial(params=params, distributions=kinds, value=cost)
