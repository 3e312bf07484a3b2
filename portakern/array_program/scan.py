"""The loop that a step becomes on arrays of libraries without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Arrays = tuple[Any, ...]


def scan(step: Callable[[Arrays, Arrays], tuple[Arrays, Arrays]], init: Arrays, xs: Arrays, length: int, reverse: bool,
         shown: Sequence[Any]) -> Arrays:  # fmt: skip
    """The carries after ``length`` steps and ``shown``, arrays that are filled with what the steps show."""
    carry = init
    for i in reversed(range(length)) if reverse else range(length):
        carry, made = step(carry, tuple(x[i] for x in xs))
        for line, value in zip(shown, made, strict=True):
            line[i] = value
    return (*carry, *shown)
