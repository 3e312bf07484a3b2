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

from portakern.ir.core import Arg, format_function
from portakern.ir.program import Array, Computed, Program, Repeat
from portakern.ir.tile import Kernel


@dataclass(frozen=True)
class Piece:
    """Kernels of a model that run one after the other.

    Args:
        program: they alone.  Its inputs are what they read, its outputs what others read of what they write, both in the order
            in which they are used.
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
    for repeat in program.repeats:
        loop = set(range(repeat.first, repeat.last))
        swapped = {name for pair in repeat.swaps for name in pair}
        loop |= {n for n, k in enumerate(program.kernels) if any(a.name in swapped for a in k.args)}
        groups = _joined(groups, loop)
    return _in_order(program, groups) if program.repeats else groups


def _joined(groups: list[list[int]], together: set[int]) -> list[list[int]]:
    """``groups`` with those that have a part in ``together`` as one."""
    one = sorted({n for g in groups if not together.isdisjoint(g) for n in g})
    return [g for g in groups if together.isdisjoint(g)] + [one]


def _in_order(program: Program, groups: list[list[int]]) -> list[list[int]]:
    """``groups`` in an order in which each may run as a whole; those that need each other are one."""
    while True:
        groups = sorted(groups, key=lambda g: g[0])
        needs = _needs(program, groups)
        done: list[int] = []
        while ready := [n for n in range(len(groups)) if n not in done and needs[n] <= set(done)]:
            done.append(ready[0])
        if len(done) == len(groups):
            return [groups[n] for n in done]
        groups = _joined(groups, {k for n in _circle(needs, set(done)) for k in groups[n]})


def _needs(program: Program, groups: list[list[int]]) -> list[set[int]]:
    """For each group those that must have run: what it reads they write, or what it writes they used before."""
    of = {k: n for n, g in enumerate(groups) for k in g}
    needs: list[set[int]] = [set() for _ in groups]
    written: dict[str, set[int]] = {}
    used: dict[str, set[int]] = {}
    for number, kernel in enumerate(program.kernels):
        for a in kernel.args:
            before = used if a in kernel.written else written
            needs[of[number]] |= {of[n] for n in before.get(a.name, ())} - {of[number]}
        for a in kernel.args:
            used.setdefault(a.name, set()).add(number)
            if a in kernel.written:
                written.setdefault(a.name, set()).add(number)
    return needs


def _circle(needs: list[set[int]], done: set[int]) -> list[int]:
    """Groups that need each other, among those that are not ``done``, each of which needs one of them."""
    way = [next(n for n in range(len(needs)) if n not in done)]
    while True:
        following = min(needs[way[-1]] - done)
        if following in way:
            return way[way.index(following) :]
        way.append(following)


# ---- the program of a piece ----------------------------------------------------------------------------------------------


def _written(program: Program, numbers: Iterable[int]) -> set[str]:
    return {a.name for n in numbers for a in program.kernels[n].args if a in program.kernels[n].written}


def _piece(program: Program, numbers: Sequence[int], filled: Collection[str]) -> Piece:
    kernels = tuple(program.kernels[n] for n in numbers)
    written = _written(program, numbers)
    elsewhere = {a.name for n, k in enumerate(program.kernels) if n not in numbers for a in k.args}
    names = dict.fromkeys(a.name for k in kernels for a in _as_used(k))
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


def _as_used(kernel: Kernel) -> list[Arg]:
    """The arguments in the order of their first use, whatever their order is in the model."""
    used = dict.fromkeys(x for op in kernel.body.walk() for x in op.operands if isinstance(x, Arg) and x in kernel.args)
    return list(dict.fromkeys([*used, *kernel.args]))


def _key(program: Program) -> str:
    """A hash of all that is done, with arrays, kernels, axes and steps called by the order in which they come."""
    text = "\n".join(_text(k) for k in program.kernels)
    arrays = "\n".join(f"{a.role} {a.name}: {a.type} = {a.init}" for a in program.arrays)
    repeats = "\n".join(f"{r.first}:{r.last} {r.count} {r.step} {r.swaps}" for r in program.repeats)
    named = [*(a.name for a in program.arrays), *(k.name for k in program.kernels), *(r.step for r in program.repeats)]
    said = _numbered("\n".join((arrays, text, repeats)), named)
    return hashlib.sha256(said.encode()).hexdigest()


def _text(kernel: Kernel) -> str:
    """What a kernel does; its arguments by their use, its axes by their numbers."""
    lines = format_function(kernel, locations=False).splitlines()
    said = [x for x in lines if not x.startswith(f"def {kernel.name}(")]
    said += [f"{a.name}: {a.type}" for a in _as_used(kernel)]
    return _numbered("\n".join(said), [a.name for a in kernel.axes])


def _numbered(text: str, names: Sequence[str]) -> str:
    """``text`` with each of ``names`` as its number among them."""
    numbers = {name: f"@{n}" for n, name in enumerate(names)}
    return re.sub(r"[A-Za-z_]\w*", lambda m: numbers.get(m[0], m[0]), text)
