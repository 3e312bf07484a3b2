"""What becomes of a kernel's mutants: caught, equivalent by argument, agreeing, or missed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from portakern.backends.rocm.amdgcn.hazards import find
from portakern.backends.rocm.amdgcn.isa import GENERATIONS

from .catalogue import mutants
from .counted import counted
from .mutant import Mutant
from .synchronisation import behind_packed, waits_of
from .trial import Changed, Trial, Unit
from .walk import covered, exposed, separates

MOST = 12
"""Operations that are counted for one wait."""

BLIND = "it stands behind inline assembly, of whose instructions LLVM counts none"

PACKED = "it stands behind packed arithmetic, whose op_sel_hi LLVM takes for a shifted result; AMD's documents ask for nothing"

LANES = ("mask", "bound", "select", "range", "layout")


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``caught``, ``equivalent``, ``agrees`` or ``missed``, and by what or why."""

    kind: str
    line: int
    what: str
    result: str
    why: str


def judged(trial: Trial, each: int | None = None, seed: int = 0) -> list[Outcome]:
    """Of all mutants of a program, or ``each`` of them at random, what becomes of them."""
    chosen = [(unit, m) for unit in trial.units for m in mutants(unit.workshop, unit.kernel)]
    if each is not None and len(chosen) > each:
        picked = sorted(random.Random(seed).sample(range(len(chosen)), each))
        chosen = [chosen[n] for n in picked]
    found = []
    for unit in trial.units:
        mine = [m for u, m in chosen if u is unit]
        same = trial.same(unit, mine)
        for n, m in enumerate(mine):
            result, why = ("equivalent", _same(m)) if n in same else _judge(m, unit, trial)
            found.append(Outcome(m.kind, m.line, m.what, result, why))
    return found


def _same(m: Mutant) -> str:
    if m.kind in ("mask", "bound", "range"):
        return "never lets through more than the kernel does"
    return "never computes another bit"


def _judge(m: Mutant, unit: Unit, trial: Trial) -> tuple[str, str]:
    if m.kind == "nop":  # has no effect on what is computed here
        missing = find(unit.workshop.changed(unit.kernel, m.edit()), unit.kernel, GENERATIONS[unit.workshop.isa])
        if missing:
            return "caught", missing[0].message
        if unit.workshop.behind_assembly(m.line):
            return "equivalent", BLIND
        return ("equivalent", PACKED) if behind_packed(unit.workshop.changed(unit.kernel, {}), m.line) else ("missed", "")
    changed = Changed(unit, m.edit(), m.other_formats)
    problem, outputs = trial.problem(changed)
    if problem:
        return "caught", problem
    if m.kind == "wait" and (why := _waited_elsewhere(m, unit, trial)):
        return "equivalent", why
    if m.kind == "barrier" and (why := _not_needed(m, unit, trial)):
        return "equivalent", why
    if not trial.reaches(unit, m.line):
        return "equivalent", "the line is never reached"
    if m.poisoned and not trial.problem(Changed(unit, {m.poisoned_at or m.line: m.poisoned}))[0]:
        return "equivalent", "nothing that can be seen depends on what it changes"
    if m.kind not in LANES:
        return "missed", ""
    problem, same = trial.elsewhere(changed)
    if problem:
        return "caught", problem
    if not m.removed and (why := trial.meets(unit, m.edit(), m.kind in ("mask", "bound", "range"))):
        return "equivalent", why
    if same and outputs == trial.outputs:
        return "agrees", "an if and else that do the same" if m.sides else "what it changes changes no bit"
    return "missed", ""


def _waited_elsewhere(m: Mutant, unit: Unit, trial: Trial) -> str:
    """Why a wait is not needed; empty where it may be."""
    edit = m.edit()
    changed = unit.workshop.changed(unit.kernel, edit)
    if covered(changed, unit.kernel):
        return "on no path is anything touched before a later wait covers it"
    waits = tuple(w for i in changed.instructions if i.line == m.line for w in waits_of(i).items())
    left = exposed(unit.workshop.changed(unit.kernel, {}), unit.kernel, m.line, waits, trial.never(unit))
    if not left:
        return "on no path that these shapes take is anything touched before a later wait covers it"
    if len(left) <= MOST and all(trial.untripped(unit, {0: counted(unit.workshop, unit.kernel, edit, n)}) for n in left):
        return "counting in the kernel itself, nothing is touched before a later wait covers it"
    return ""


def _not_needed(m: Mutant, unit: Unit, trial: Trial) -> str:
    """Why a barrier is not needed; empty where it may be."""
    if unit.one_wave:
        return "the workgroup is one wave"
    if m.kind == "barrier" and not separates(unit.workshop.changed(unit.kernel, {}), unit.kernel, m.line, trial.never(unit)):
        return "no LDS is touched between it and the barriers before it, or between it and those after it"
    return ""
