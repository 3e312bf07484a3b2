"""A mutant beside its kernel: from it to a later line each wave goes both ways, and what they leave different is replaced.

Where both ways meet, registers, LDS and memory that they left alike are what they are, and so is all that follows.  What they
left different is made undefined, or given other values: NaN, infinities, zero, any bits.  If the results keep their bits,
nothing that can be seen depends on it.  Lanes that are masked in one way and computed for nothing in the other, a fast and a
general path to the same load, values that a later mask takes away: all meet again somewhere.

Places where all ways meet that lead on from a line are its *postdominators*.  A barrier may lie between the two
places only where LDS is not touched there: else the other waves would have to go both ways as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portakern.backends.rocm.amdgcn.assembly.parser import Assembly

from .walk import Edge, effects_of, successors

PLACES = 6
"""Places tried for one mutant."""

FILLINGS = (1, 2, 3)
"""Ways to choose other values, by the number of ``pk_join``; 0 makes undefined."""

_BARRIERS = ("s_barrier", "s_barrier_signal", "s_barrier_wait")


@dataclass(frozen=True)
class Beside:
    """Up to the line ``join``, where values are chosen by ``filling``."""

    join: int
    filling: int


def meeting(assembly: Assembly, kernel: str, line: int, never: frozenset[Edge], stores: bool) -> list[int]:
    """The lines of ``kernel`` at which the ways behind ``line`` meet, the nearest first: the next instruction, then those to
    which several ways lead, and the last one of all.  ``stores`` says whether global memory may be written before."""
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    follow = [successors(assembly, n, start, end, never) for n in range(end - start)]
    at = max(n for n in range(end - start) if assembly.instructions[start + n].line == line)
    effects = effects_of(assembly, kernel)
    come = [0] * (end - start)
    for m in (m for ms in follow for m in ms):
        come[m] += 1
    lines = [i.line for i in assembly.instructions[start:end]]
    chain = [n for n in _postdominators(follow, at) if lines[n] != lines[n - 1]]  # not between the halves of a pair
    found: list[int] = []
    last = -1
    for n in chain:
        between = _between(follow, at, n)
        names = [assembly.instructions[start + k].mnemonic for k in between]
        shared = any(effects[k].local or effects[k].copies for k in between)
        if (shared and any(name in _BARRIERS for name in names)) or (not stores and any("store" in name for name in names)):
            break
        last = n
        if not found or come[n] > 1:
            found.append(n)
        if len(found) == PLACES - 1:
            break
    places = [*found, last] if last not in (-1, *found) else found
    return [lines[n] for n in places]


def _postdominators(follow: list[list[int]], at: int) -> Iterator[int]:
    """Places that every way from ``at`` passes, in the order in which it does."""
    seen = _reach(follow, at)
    every = 0
    for n in seen:
        every |= 1 << n
    behind = dict.fromkeys(seen, every)
    order = sorted(seen, reverse=True)
    changed = True
    while changed:
        changed = False
        for n in order:
            met = every if follow[n] else 0
            for m in follow[n]:
                met &= behind[m]
            met |= 1 << n
            if met != behind[n]:
                behind[n], changed = met, True
    chain = [n for n in seen if n != at and behind[at] >> n & 1]
    yield from sorted(chain, key=lambda n: -behind[n].bit_count())


def _reach(follow: list[list[int]], at: int, stop: int = -1) -> set[int]:
    seen, todo = {at}, [at]
    while todo:
        for m in follow[todo.pop()]:
            if m not in seen and m != stop:
                seen.add(m)
                todo.append(m)
    return seen


def _between(follow: list[list[int]], at: int, end: int) -> set[int]:
    return _reach(follow, at, end)
