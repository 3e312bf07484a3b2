"""Loops over taps that sum products, as one product: the windows of all taps side by side, times all their weights.

A matrix unit sums 128 or 256 products at once, and what one product sums need not be added up in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from portakern.ir.core import Result, yielded
from portakern.ir.tile import Dot, Load

from .blocks import BlockAccess
from .taps import TapLoop


@dataclass(frozen=True)
class JoinedTaps:
    """``loops``, outermost first, sum ``dot``, whose operands are ``windows`` and ``weights``."""

    loops: tuple[TapLoop, ...]
    dot: Dot
    windows: Load
    weights: Load


def joined_taps(loop: TapLoop, access_of: Callable[[Load], BlockAccess]) -> JoinedTaps | None:
    """What ``loop`` sums, if that is products of windows and nothing else."""
    loops = [loop]
    while True:
        body = loops[-1].body
        (end, *more) = yielded(body)
        if more or len(body.args) != 1:
            return None
        if not isinstance(end, Result) or not isinstance(end.source, TapLoop):
            break
        if end.source.init != body.args:
            return None
        loops.append(end.source)
    if not isinstance(end, Dot) or end.acc is not body.args[0]:
        return None
    if not isinstance(end.lhs, Load) or not isinstance(end.rhs, Load) or end.lhs.pad or end.rhs.pad:
        return None
    sides: tuple[tuple[Load, Load], ...] = ((end.lhs, end.rhs), (end.rhs, end.lhs))
    for windows, weights in sides:
        if _slides(access_of(windows), end.axis) and _holds_all(access_of(weights), end.axis, tuple(loops)):
            return JoinedTaps(tuple(loops), end, windows, weights)
    return None


def _slides(access: BlockAccess, summed: str) -> bool:
    return bool(access.window) and access.place[1] == summed


def _holds_all(access: BlockAccess, summed: str, loops: tuple[TapLoop, ...]) -> bool:
    """Whether a block has the weights of every tap, tap after tap along what is summed."""
    dims = [d for d in access.window if d.elements is not None]
    taps = tuple(d.taps for d in dims[:-2])
    return taps == tuple(((x.axis, 1),) for x in loops) and access.place[0] == summed and all(
        d.first == 0 and d.elements == d.size for d in dims[:-1]) and dims[-1].first == 0  # fmt: skip
