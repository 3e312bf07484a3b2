"""Axes of a sweep: a dim with several sizes, one row for each point.

``M=256|512|768`` lists sizes, ``M=256:8192:*2`` doubles from 256 to 8192, ``M=256:1024:+256`` counts; they may be mixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from portakern.errors import UsageError

MOST = 10_000
"""Points of a sweep; more are a slip."""

_HINT = "write M=256|512 for a list, M=256:8192:*2 to double, or M=256:1024:+256 to count up"


def points(shape: Mapping[str, str | Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the sizes, the last axis varying fastest.  Raises :class:`UsageError` for an axis that is none."""
    axes = {name: list(dict.fromkeys(_sizes(name, axis) if isinstance(axis, str) else axis)) for name, axis in shape.items()}
    count = 1
    for sizes in axes.values():
        count *= len(sizes)
    if count > MOST:
        raise UsageError(f"--shape asks for {count} points, and {MOST} are the most", hint="take larger steps")
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _sizes(name: str, text: str) -> Iterator[str]:
    for part in text.split("|"):
        if ":" in part:
            yield from _range(name, part)
        else:
            yield part.strip()


def _range(name: str, text: str) -> Iterator[str]:
    """From the first size to the last, both included where a step meets it."""
    parts = text.split(":")
    try:
        first, last, step = int(parts[0]), int(parts[1]), parts[2]
        by = int(step[1:])
    except (ValueError, IndexError):
        raise UsageError(f"--shape {name}={text}: not a range of sizes", hint=_HINT) from None
    grows = (step[0] == "+" and by > 0) or (step[0] == "*" and by > 1 and first > 0)
    if len(parts) != 3 or not grows or first > last:
        raise UsageError(f"--shape {name}={text}: a range goes up, from a first size to a last one, by *N or +N", hint=_HINT)
    size, made = first, 0
    while size <= last and made <= MOST:
        yield str(size)
        size, made = (size + by if step[0] == "+" else size * by), made + 1
