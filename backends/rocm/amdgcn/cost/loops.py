"""Loops of a kernel's control-flow graph as a wave went round them, and a short form of what it executed.

A loop is what lies between a backward branch and its target; how often it is gone round is what the trace says.  Of many
rounds a few are kept, which is enough to see how long one takes when all is in its stride.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..assembly.linking import destination
from ..assembly.parser import Assembly
from .instructions import InstructionCost, Unit
from .values import Trace

KEPT = 6
"""Rounds of a loop that are issued by the scoreboard, the last one among them."""
STEADY = (2, 4)
"""The rounds between which the steady state is read."""


@dataclass(frozen=True)
class NaturalLoop:
    """Instructions from ``header`` to ``latch``, the backward branch."""

    header: int
    latch: int
    label: str

    def __contains__(self, at: int) -> bool:
        return self.header <= at <= self.latch


def loops_of(code: Assembly, costs: Sequence[InstructionCost | None], trace: Trace) -> list[NaturalLoop]:
    """Every loop that the wave went round, outer ones first."""
    latches: dict[int, tuple[int, str]] = {}
    for before, after in zip(trace.steps, trace.steps[1:], strict=False):
        cost = costs[before]
        if after <= before and cost is not None and cost.unit is Unit.BRANCH:
            latch = max(before, latches.get(after, (0, ""))[0])
            latches[after] = (latch, destination(code.instructions, before) or "")
    return sorted((NaturalLoop(h, *end) for h, end in latches.items()), key=lambda x: x.header - x.latch)


@dataclass
class LoopRun:
    """One time that a loop was entered: how many rounds, and where in the short trace the kept ones begin (and the last ends).

    ``inside`` is the run around it and the kept round of it.
    """

    loop: NaturalLoop
    rounds: int
    starts: list[int] = field(default_factory=list)
    inside: tuple[LoopRun, int] | None = None
    extra: dict[int, float] = field(default_factory=dict)
    """Cycles of rounds left out of runs inside, by kept round of this one."""

    @property
    def kept(self) -> int:
        return min(self.rounds, KEPT)


@dataclass
class Short:
    """A trace with most rounds of long loops left out: positions in the whole trace, and the runs that were shortened."""

    places: list[int]
    runs: list[LoopRun]


def shorten(trace: Trace, loops: Sequence[NaturalLoop]) -> Short:
    found = Short([], [])
    _copy(trace.steps, loops, 0, len(trace.steps), None, found)
    return found


def _copy(
    steps: Sequence[int], loops: Sequence[NaturalLoop], begin: int, end: int, inside: tuple[LoopRun, int] | None, found: Short
) -> None:
    headers = {x.header: x for x in loops if inside is None or (x.header in inside[0].loop and x != inside[0].loop)}
    at = begin
    while at < end:
        loop = headers.get(steps[at])
        if loop is None:
            found.places.append(at)
            at += 1
            continue
        stop = at
        while stop < end and steps[stop] in loop:
            stop += 1
        starts = [k for k in range(at, stop) if steps[k] == loop.header]
        run = LoopRun(loop, len(starts), inside=inside)
        found.runs.append(run)
        for kept, k in enumerate(_chosen(len(starts))):
            run.starts.append(len(found.places))
            _copy(steps, loops, starts[k], starts[k + 1] if k + 1 < len(starts) else stop, (run, kept), found)
        run.starts.append(len(found.places))
        at = stop


def _chosen(rounds: int) -> Iterator[int]:
    if rounds <= KEPT:
        return iter(range(rounds))
    return iter((*range(KEPT - 1), rounds - 1))


def stretched(runs: Sequence[LoopRun], times: Sequence[float]) -> tuple[float, dict[NaturalLoop, float]]:
    """(cycles that were left out, the cycles of one round of each loop), given when each place of the short trace is issued.

    ``times`` has one more entry: when the wave ends.
    """
    total = 0.0
    steady: dict[NaturalLoop, float] = {}
    for run in reversed(runs):  # those inside come after those around them
        first, last = STEADY if run.rounds > KEPT else (0, run.kept)
        cycles = times[run.starts[last]] - times[run.starts[first]] + sum(run.extra.get(k, 0.0) for k in range(first, last))
        per_round = cycles / max(1, last - first)
        steady[run.loop] = per_round
        missing = per_round * (run.rounds - run.kept) + sum(run.extra.values())
        if run.inside is None:
            total += missing
        else:
            around, kept = run.inside
            around.extra[kept] = around.extra.get(kept, 0.0) + missing
    return total, steady
