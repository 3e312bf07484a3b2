"""Whether an operation is done where it is touched, on the paths that are taken: the kernel counts for itself.

The walk (:mod:`.walk`) joins paths, and so takes some that no wave takes: that around one mask together with that around
another of the same lanes.  Here scalar instructions are written into the kernel that count, for one operation, how many of
its counter were issued since, clear that at a wait that covers it, and trap where the operation is touched before.
"""

from __future__ import annotations

from collections.abc import Sequence

from .mutant import TRAP, Spare
from .walk import Effect, before_copies, effects_of, successors
from .workshop import Edit, Workshop, trap


def counted(workshop: Workshop, kernel: str, edit: Edit, line: int) -> dict[int, Sequence[str]]:
    """``edit``, and the counting of the operation in ``line``; trap 0 is run into where it is touched too early."""
    assembly = workshop.changed(kernel, edit)
    effects = effects_of(assembly, kernel)
    start, end = assembly.labels[kernel], assembly.end_of(kernel)
    follow = [successors(assembly, n, start, end, frozenset()) for n in range(start, end)]
    copies = before_copies(effects, follow)
    places: dict[int, list[Effect]] = {}
    copied: set[int] = set()
    for i, e, copies_follow in zip(assembly.instructions, effects, copies, strict=True):
        places.setdefault(i.line, []).append(e)
        copied |= {i.line} if copies_follow else set()
    (watched,) = (e for e in places[line] if e.counter)
    spare = workshop.kernel(kernel).spare
    made: dict[int, Sequence[str]] = {}
    for at, here in places.items():
        before, after = _around(here, watched, at == line, at in copied, spare)
        if before or after:
            kept = edit.get(at, (workshop.line(at),))
            made[at] = (*_marked(before), *kept, *_marked(after))
    first = assembly.instructions[0].line
    begin = (f"s_mov_b32 {spare.number}, 0",)
    return {**edit, **made, first: (*begin, *made.get(first, edit.get(first, (workshop.line(first),))))}


def _around(here: Sequence[Effect], watched: Effect, itself: bool, copies: bool, spare: Spare) -> tuple[list[str], list[str]]:
    number = spare.number
    before: list[str] = []
    after: list[str] = []
    for e in here:
        if e.touches(watched, copies):
            before += spare.keeping_scc(f"s_cmp_lg_u32 {number}, 0", f"s_cbranch_scc1 {TRAP}")
        for counter, count in e.waits:
            if counter == watched.counter and not count:
                after += [f"s_mov_b32 {number}, 0"]
            elif counter == watched.counter and watched.ordered:
                after += spare.keeping_scc(f"s_cmp_gt_u32 {number}, {count}", f"s_cselect_b32 {number}, 0, {number}")
        if e.counter == watched.counter:
            if itself:  # one more than how many came later; of two of the same line the earlier is done with the later
                after += [f"s_mov_b32 {number}, 1"]
            else:
                after += spare.keeping_scc(f"s_cmp_lg_u32 {number}, 0", f"s_addc_u32 {number}, {number}, 0")
    return before, after


def _marked(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"0@{line.replace(TRAP, trap(0))}" for line in lines)
