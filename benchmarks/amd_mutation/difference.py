"""Whether an instruction's result would differ: computed both ways, side by side.

The mutant's result goes to spare registers and is compared bit by bit with the instruction's own.  Where no active lane
differs, the mutant computes the same.  Where lanes differ, *poison* makes them undefined: if no undefined value reaches
memory, an address, a branch or EXEC, nothing that can be seen depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .mutant import TRAP, Mutant, Spare, each


def by_difference(m: Mutant, to: str, changed: Sequence[str], kept: str, spare: Spare, *, partial: bool = False,
                  wait: str = "") -> Mutant:  # fmt: skip
    """``m`` with its witness and poison.

    Args:
        to: the register that the instruction writes.
        changed: the mutant's lines, with ``{d}`` for that register.
        kept: the unchanged line.
        partial: whether some lanes or bits of ``to`` keep what they held.
        wait: what to wait with for the mutant's result.
    """
    if to.startswith("s"):
        return _scalar(m, to, changed, kept, spare)
    own = each(to)
    second = spare.vector(len(own))
    if not own or second is None or not spare.never:
        return m
    copies = [f"v_mov_b32_e32 {s}, {d}" for s, d in zip(each(second), own, strict=True)] if partial else []
    compute = (*copies, *(line.replace("{d}", second) for line in changed), *([wait] if wait else []))
    waited = (kept, wait) if wait else (kept,)
    check, poison = [], []
    for s, d in zip(each(second), own, strict=True):
        compare = f"v_cmp_ne_u32_e64 {spare.mask}, {s}, {d}"
        check += [compare, f"s_or_{spare.bits} {spare.mask}, {spare.mask}, {spare.mask}", f"s_cbranch_scc1 {TRAP}"]
        poison += [compare, f"v_cndmask_b32_e64 {d}, {d}, {spare.never}, {spare.mask}"]
    after = ((wait,) if wait else ()) + spare.keeping_scc(*check)
    return replace(m, before=compute, after=after, poisoned=(*compute, *waited, *poison))


def _scalar(m: Mutant, to: str, changed: Sequence[str], kept: str, spare: Spare) -> Mutant:
    compute = tuple(line.replace("{d}", spare.number) for line in changed)
    differ = f"s_cmp_lg_u32 {spare.number}, {to}"
    return replace(
        m,
        before=compute,
        after=spare.keeping_scc(differ, f"s_cbranch_scc1 {TRAP}"),
        poisoned=(*compute, kept, *spare.keeping_scc(differ, f"s_cselect_b32 {to}, {spare.never_scalar}, {to}")),
    )
