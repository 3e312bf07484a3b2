"""A task at small sizes of the same structure, found by making its numbers smaller.

A choice holds where the model, run on fake tensors, does the same operations in the same order as at the asked sizes; what it
does many times in a row, as an unrolled loop over time does, it may do fewer times.  Where this takes too long to look at, or
where fake tensors cannot follow it, as into numpy, it is enough that the model runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from portakern.suite.operations import SEARCH_S, operations_of, runs

SMALL = 8
"""Numbers up to this stay: windows, strides, groups, heads."""

KEPT = re.compile(r"kernel|stride|pad|dilation|group|head|layers?$|window|patch|depth|factor|ratio|expansion", re.I)
"""Names whose numbers say how a model is built, and not how large."""

DEPTH, HEIGHT = re.compile("depth", re.IGNORECASE), re.compile("height", re.IGNORECASE)
"""``depth`` is a number of layers, but next to a height it is a size of volumes."""

POSITIONS = re.compile("height|width|depth", re.IGNORECASE)
"""Names of sizes of images and volumes, which are dealt out to no groups."""

SHARED = re.compile(r"group|head", re.IGNORECASE)
"""Names of how many parts a size is dealt out to: at least two elements stay for each, or there is nothing to normalise."""

Numbers = Mapping[int, int]
"""New values of sites, by their number in the task."""


class Sized(Protocol):
    """A task whose sizes may be made smaller."""

    @property
    def sites(self) -> Sequence[tuple[str, int]]:
        """The numbers that may be: what each is called, and its value."""
        ...

    @property
    def parts(self) -> Sequence[int]:
        """The numbers of parts that sizes are dealt out to."""
        ...

    def made(self, numbers: Numbers) -> tuple[Any, tuple[Any, ...]]:
        """The model with ``numbers`` in place, and what it is called with."""
        ...


def stays(name: str, names: Iterable[str]) -> bool:
    """Whether the number ``name`` of a task that has ``names`` says how a model is built."""
    volumes = any(HEIGHT.search(n) for n in names)
    return KEPT.search(DEPTH.sub("", name) if volumes else name) is not None


def said(task: Sized, numbers: Numbers) -> str:
    """``batch_size 128 -> 8, ..``"""
    return ", ".join(f"{task.sites[i][0]} {task.sites[i][1]} -> {n}" for i, n in sorted(numbers.items()))


def candidates(task: Sized, site: int) -> Iterator[int]:
    """Sizes to try at a site, smallest first."""
    name, value = task.sites[site]
    positions = "batch" in name or (any(HEIGHT.search(n) for n, _ in task.sites) and POSITIONS.search(name))
    least = 0 if positions else max((2 * p for p in task.parts if 2 * p <= value), default=0)
    yield from (n for n in smaller(value) if n >= least)


def smaller(value: int) -> Iterator[int]:
    """Sizes to try in place of ``value``, smallest first, with its factors of two as far as they go."""
    size = max(SMALL // 2, round(value**0.42))
    odd = value & -value < SMALL  # no multiple of 8
    at = size | 1 if odd else 1 << (size - 1).bit_length()
    while at < value:
        yield at
        at = 2 * at + (1 if odd else 0)


def reduced(task: Sized) -> dict[int, int]:
    """The smallest numbers that were found, by site; none where the task runs at its own sizes alone."""
    wanted = operations(task, {})
    begun = time.monotonic()
    first = {i: n for i, (_, v) in enumerate(task.sites) if (n := next(candidates(task, i), v)) < v}
    if wanted is None:  # it does not run, or takes long to look at, as an unrolled loop over time does
        return first if first and (operations(task, first) is not None or runs(lambda: task.made(first))) else {}
    if not first or operations(task, first) == wanted:
        return first
    chosen: dict[int, int] = {}
    for site in sorted(first, key=lambda i: -task.sites[i][1]):
        for size in candidates(task, site):
            if time.monotonic() - begun > SEARCH_S:
                return chosen
            # The sites that are left are tried small as well, since sizes that belong together shrink together.
            rest = {i: n for i, n in first.items() if i not in chosen and i != site}
            if operations(task, {**chosen, **rest, site: size}) == wanted:
                return {**chosen, **rest, site: size}
            if operations(task, {**chosen, site: size}) == wanted:
                chosen[site] = size
                break
    return chosen


def operations(task: Sized, numbers: Numbers) -> tuple[str, ...] | None:
    """The operations that the model does on fake tensors with ``numbers`` in place; ``None`` where it does not run."""
    return operations_of(lambda: task.made(numbers))
