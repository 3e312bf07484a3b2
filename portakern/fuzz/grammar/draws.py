"""Draws that shrink towards their first option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

_DIGIT = 128
"""Hypothesis draws integers below this evenly, and small ones more often above it."""


def pick(draw: Draw, options: Sequence[T], weights: Sequence[float] | None = None) -> T:
    """One of ``options``, as often as its weight says; shrinks towards the first that has any."""
    if weights is None:
        return options[draw(st.integers(0, len(options) - 1))]
    bounds = [*accumulate(max(0.0, w) for w in weights)]
    if not bounds[-1]:
        return options[0]
    place = _fraction(draw, 1 if len(options) <= 8 else 2) * bounds[-1]
    return next(o for o, bound in zip(options, bounds, strict=True) if place < bound)


def _fraction(draw: Draw, digits: int) -> float:
    """A number from 0 to below 1."""
    return sum(draw(st.integers(0, _DIGIT - 1)) / _DIGIT**i for i in range(1, digits + 1))


def chance(draw: Draw, percent: float) -> bool:
    """True ``percent`` times of a hundred, to the nearest of 128 parts; shrinks towards false."""
    return draw(st.integers(0, _DIGIT - 1)) >= _DIGIT - round(_DIGIT * min(percent, 100) / 100)


def some(draw: Draw, options: Sequence[T]) -> tuple[T, ...]:
    """One or more of ``options``, in order; shrinks towards the first."""
    left = list(options)
    for _ in range(len(options) - pick(draw, range(1, len(options) + 1))):
        left.remove(pick(draw, left[::-1]))
    return tuple(left)


def order(draw: Draw, options: Sequence[T]) -> tuple[T, ...]:
    """``options`` in any order; shrinks towards the one given."""
    left, found = list(options), []
    while left:
        found.append(left.pop(pick(draw, range(len(left)))))
    return tuple(found)
