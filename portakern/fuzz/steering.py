"""Weights of the grammar's features: those of programs that lately reached what few had reached weigh more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

DECAY = 0.8
"""What is left of a feature's merit after each batch."""

MOST = 4.0
"""The weight of the best feature; one without merit has 1."""

UNSEEN = 3.0
"""The weight of a feature that no program had yet."""


@dataclass
class Steering:
    """``merit`` of each feature: the rare functions that programs with it reached, a first time counting most."""

    features: tuple[str, ...]
    merit: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def credit(self, features: Iterable[str], rare: Mapping[str, int]) -> None:
        """A program with ``features`` reached functions for the n-th time."""
        for feature in features:
            self.merit[feature] += sum(1.0 / n for n in rare.values())  # type: ignore[assignment]

    def saw(self, features: Iterable[str]) -> None:
        self.seen.update(features)

    def next_batch(self) -> dict[str, float]:
        """The weights of the next batch, all 1 in the first; merit fades."""
        share = {f: self.merit[f] / max(1, self.seen[f]) for f in self.features}
        best = max(share.values(), default=0.0) or 1.0

        def weight(feature: str) -> float:
            if not self.seen[feature]:
                return UNSEEN if self.seen else 1.0
            return 1.0 + (MOST - 1.0) * share[feature] / best

        weights = {f: round(weight(f), 3) for f in self.features}
        for feature in self.merit:
            self.merit[feature] *= DECAY  # type: ignore[assignment]
        return weights
