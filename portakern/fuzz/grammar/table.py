"""The table of productions: a further operation of the tensor level is a line more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portakern.fuzz.grammar.scope import FuzzScope

Make = Callable[[FuzzScope], Any]


@dataclass(frozen=True)
class Production:
    """A way to go on: ``make`` adds statements to a scope, ``weight`` says how often among all."""

    name: str
    weight: float
    make: Make


TABLE: dict[str, Production] = {}
"""By name, the simplest first: shrinking goes towards the start."""


def add(name: str, weight: float, make: Make) -> None:
    assert name not in TABLE, name
    TABLE[name] = Production(name, weight, make)


def production(weight: float = 1.0) -> Callable[[Make], Make]:
    """Puts a function on a scope into the table under its name."""

    def register(make: Make) -> Make:
        add(make.__name__, weight, make)
        return make

    return register
