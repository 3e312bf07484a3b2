"""A program taken apart: what its weights alone decide, to be done once, and what is done at every call.

Kernels go as a whole.  One is of the preparation if all that it reads are weights or results of the preparation, nothing else
writes what it writes, and its extents are known.  Kernels of one stage stay together, and so do those of a loop with all that
touch what changes places after its turns.  Outputs are written at every call: they are new arrays each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from portakern.ir.program import Array, Program, verify_program
from portakern.ir.size import names_of
from portakern.ir.tile import BufferType


@dataclass(frozen=True)
class Hoisted:
    """``preparation`` takes weights and gives what ``main`` takes as further inputs, after those of the operator; a weight that
    no kernel of ``main`` reads is no input of it."""

    preparation: Program
    main: Program


def hoisted(program: Program, weights: Collection[str]) -> Hoisted | None:
    """``program`` in two, where ``weights`` names those of its inputs that stay as they are from call to call; ``None`` where
    nothing hangs on them alone."""
    kept = {a.name for a in program.by_role("input") if a.name in weights}
    early = _early(program, kept) if kept else []
    if not early:
        return None
    late = [n for n in range(len(program.kernels)) if n not in early]
    before, read = _names(program, early), _names(program, late)
    made = [a for a in program.arrays if a.name in _written(program, early) and a.name in read]
    handed = {a.name for a in made}
    dropped = before - read
    preparation = _part(program, f"{program.name}_weights", early, [
        *(a for a in program.by_role("input") if a.name in before),
        *(replace(a, role="output") for a in made),
        *(a for a in program.by_role("temporary") if a.name in before - handed),
    ])  # fmt: skip
    main = _part(program, program.name, late, [
        *(a for a in program.by_role("input") if a.name not in dropped),
        *(replace(a, role="input", init=None) for a in made),
        *program.by_role("scalar", "output"),
        *(a for a in program.by_role("temporary") if a.name in read - handed),
    ])  # fmt: skip
    return Hoisted(preparation, main)


# ---- which kernels come early --------------------------------------------------------------------------------------------


def _early(program: Program, weights: Collection[str]) -> list[int]:
    """The kernels of the preparation, in order."""
    varies = {a.name for a in program.arrays if a.role != "temporary" and a.name not in weights}
    left = _groups(program)
    opened = {g for g in left if _is_open(program, g)}
    while late := [g for g in left if g in opened or not varies.isdisjoint(_names(program, g))]:
        left = [g for g in left if g not in late]
        for group in late:
            varies |= _written(program, group)
    return sorted(n for g in left for n in g)


def _groups(program: Program) -> list[frozenset[int]]:
    """The numbers of all kernels, those that stay together as one group."""
    groups = [frozenset({n}) for n in range(len(program.kernels))]
    bound = [set(range(c.first, c.last)) for c in program.computed]
    for r in program.repeats:
        swapped = {name for pair in r.swaps for name in pair}
        bound.append({*range(r.first, r.last), *(n for n, k in enumerate(program.kernels)
                                                 if any(a.name in swapped for a in k.args))})  # fmt: skip
    for together in bound:
        if together:
            joined = frozenset().union(*(g for g in groups if not together.isdisjoint(g)))
            groups = [*(g for g in groups if together.isdisjoint(g)), joined]
    return groups


def _is_open(program: Program, group: Iterable[int]) -> bool:
    """Whether a call says how much the kernels of a group do: that is not known when weights are bound."""
    counts = [r.count for r in program.repeats if r.first in group]
    steps = {r.step for r in program.repeats}
    sizes = {s for n in group for s in program.kernels[n].sizes} | {s for c in counts for s in names_of(c)}
    return bool(sizes - steps) or any(_open(program.array(n)) for n in _names(program, group))


def _open(array: Array) -> bool:
    t = array.type
    return isinstance(t, BufferType) and any(names_of(s) for s in (*t.shape, *(t.strides or ())))


def _names(program: Program, kernels: Iterable[int]) -> set[str]:
    """The arrays that kernels read or write; of a loop, those that change places too."""
    numbers = set(kernels)
    swapped = {n for r in program.repeats if r.first in numbers for pair in r.swaps for n in pair}
    return swapped | {a.name for n in numbers for a in program.kernels[n].args}


def _written(program: Program, kernels: Iterable[int]) -> set[str]:
    numbers = set(kernels)
    swapped = {n for r in program.repeats if r.first in numbers for pair in r.swaps for n in pair}
    return swapped | {a.name for n in numbers for a in program.kernels[n].args if a in program.kernels[n].written}


# ---- the two programs ----------------------------------------------------------------------------------------------------


def _part(program: Program, name: str, kernels: Sequence[int], arrays: Sequence[Array]) -> Program:
    """Some kernels of ``program`` in their order, with what is repeated and what is computed by them."""
    place = {n: i for i, n in enumerate(kernels)}
    repeats = [replace(r, first=place[r.first], last=place[r.last - 1] + 1) for r in program.repeats if r.first in place]
    computed = [replace(c, first=place[c.first], last=place[c.last - 1] + 1) for c in program.computed
                if c.first in place and c.last > c.first]  # fmt: skip
    part = Program(name, tuple(arrays), tuple(program.kernels[n] for n in kernels), tuple(repeats), tuple(computed))
    verify_program(part)
    return part
