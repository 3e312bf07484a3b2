"""A model's kernels as pieces that run alone: each a program of its own, between arrays that the model holds for it.

A piece is what one stage of lowering gave, mostly one kernel.  What is repeated (the steps of a recurrent layer) is one piece
with all its turns; kernels that write or read what changes places after a turn go with it.  Pieces that differ in the names of
their arrays alone, as those of equal layers do, have one ``key``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from portakern.ir.core import format_function
from portakern.ir.program import Array, Computed, Program, Repeat
from portakern.ir.tile import Kernel


@dataclass(frozen=True)
class Piece:
    """Kernels of a model that run one after the other.

    Args:
        program: they alone.  Its inputs are what they read, its outputs what others read of what they write, both in the order
            of the kernels' arguments.
        numbers: theirs in the model's program.
        computed: what they compute.
        key: the same for pieces that can take each other's place on other arrays.
    """

    program: Program
    numbers: tuple[int, ...]
    computed: tuple[Computed, ...]
    key: str

    @property
    def arrays(self) -> tuple[str, ...]:
        """Inputs, scalars and outputs, in the order in which a call takes them."""
        return tuple(a.name for a in self.program.by_role("input", "scalar", "output"))


def pieces_of(program: Program) -> list[Piece]:
    """All pieces, in an order in which they may run."""
    groups = _with_loops(program, [list(range(c.first, c.last)) for c in program.computed])
    filled: set[str] = set()
    found = []
    for numbers in groups:
        found.append(_piece(program, numbers, filled))
        filled |= _written(program, numbers)
    return found


# ---- which kernels go together -------------------------------------------------------------------------------------------


def _with_loops(program: Program, groups: list[list[int]]) -> list[list[int]]:
    for repeat in sorted(program.repeats, key=lambda r: r.first - r.last):  # the outer ones first
        inside = set(range(repeat.first, repeat.last))
        within = [r for r in program.repeats if repeat.first <= r.first and r.last <= repeat.last]
        swapped = {name for r in within for pair in r.swaps for name in pair}
        inside |= _that_touch(program, inside, swapped)
        joined = sorted({n for g in groups if not inside.isdisjoint(g) for n in g} | inside)
        groups = [g for g in groups if inside.isdisjoint(g)] + [joined]
    place = {id(g): _place(program, g) for g in groups}
    return sorted(groups, key=lambda g: place[id(g)])


def _that_touch(program: Program, inside: set[int], swapped: Collection[str]) -> set[int]:
    """Kernels beside a loop that use its changing arrays, and those in between that cannot run before or after all of it."""
    first, last = min(inside), max(inside)
    outside = [n for n in range(len(program.kernels)) if n not in inside]
    touching = {n for n in outside if any(a.name in swapped for a in program.kernels[n].args)}
    between = {m for n in touching for m in (range(n + 1, first) if n < first else range(last + 1, n))} - touching
    if any(_depend(program.kernels[m], program.kernels[n]) for m in between for n in touching):
        return touching | between
    return touching


def _depend(a: Kernel, b: Kernel) -> bool:
    """Whether one writes what the other uses."""
    names = [{x.name for x in k.args} for k in (a, b)]
    written = [{x.name for x in k.args if x in k.written} for k in (a, b)]
    return bool(written[0] & names[1] or written[1] & names[0])


def _place(program: Program, group: Sequence[int]) -> int:
    """Where a group runs: at its loop, which the kernels that go with it are brought to, else where it stands."""
    return next((r.first for r in program.repeats if r.first in group), group[0])


# ---- the program of a piece ----------------------------------------------------------------------------------------------


def _written(program: Program, numbers: Iterable[int]) -> set[str]:
    return {a.name for n in numbers for a in program.kernels[n].args if a in program.kernels[n].written}


def _piece(program: Program, numbers: Sequence[int], filled: Collection[str]) -> Piece:
    kernels = tuple(program.kernels[n] for n in numbers)
    written = _written(program, numbers)
    elsewhere = {a.name for n, k in enumerate(program.kernels) if n not in numbers for a in k.args}
    names = dict.fromkeys(a.name for k in kernels for a in k.args)
    swapped = {n for r in _inside(program, numbers) for pair in r.swaps for n in pair}
    names |= dict.fromkeys(sorted(swapped))

    def role(a: Array) -> str:
        if a.name not in written:
            return a.role if a.role in ("input", "scalar") else "input" if a.name not in swapped else "temporary"
        return "output" if a.name in elsewhere or a.role == "output" else "temporary"

    def as_here(a: Array) -> Array:
        # What an earlier piece has begun to fill is not filled again.
        return replace(a, role=role(a), init=None if a.name in filled or a.name not in written else a.init)

    arrays = [as_here(program.array(n)) for n in names]
    order = ("input", "scalar", "output", "temporary")
    arrays.sort(key=lambda a: order.index(a.role))
    repeats = tuple(replace(r, first=numbers.index(r.first), last=numbers.index(r.last - 1) + 1)
                    for r in _inside(program, numbers))  # fmt: skip
    alone = Program(_name(program, numbers), tuple(arrays), kernels, repeats)
    computed = tuple(c for c in program.computed if c.first in numbers)
    return Piece(alone, tuple(numbers), computed, _key(alone))


def _inside(program: Program, numbers: Sequence[int]) -> list[Repeat]:
    return [r for r in program.repeats if r.first in numbers and r.last - 1 in numbers]


def _name(program: Program, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return program.kernels[numbers[0]].name
    return f"{program.name}_{numbers[0] + 1}_to_{numbers[-1] + 1}"


def _key(program: Program) -> str:
    """A hash of all that is done, with arrays, kernels and steps called by the order in which they come."""
    text = "\n".join(format_function(k, locations=False) for k in program.kernels)
    arrays = "\n".join(f"{a.role} {a.name}: {a.type} = {a.init}" for a in program.arrays)
    repeats = "\n".join(f"{r.first}:{r.last} {r.count} {r.step} {r.swaps}" for r in program.repeats)
    named = [*(a.name for a in program.arrays), *(k.name for k in program.kernels), *(r.step for r in program.repeats)]
    numbers = {name: f"@{n}" for n, name in enumerate(named)}
    said = re.sub(r"[A-Za-z_]\w*", lambda m: numbers.get(m[0], m[0]), "\n".join((arrays, text, repeats)))
    return hashlib.sha256(said.encode()).hexdigest()
