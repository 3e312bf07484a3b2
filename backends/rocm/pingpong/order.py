"""What a wave waits for, derived from the order in which it reads, sets copies going and multiplies.

Reads of LDS and copies to it are both under way when a wave goes on, and arrive in the order in which they were begun.  So
registers must have arrived before they are multiplied, a half of a slice must have landed before the turn that reads it, and
what is overwritten must have been read, by all waves, two barriers ago: those that multiply are one barrier behind the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.errors import IRError

from .interleave import Quarter
from .operand import StagedOperand
from .plan import Turn

_STEPS = 4
"""Steps that are looked back on: no copy is that far ahead."""

def turns_in_order(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """``turns`` of one step with what they wait for.

    Raises :class:`IRError` where a copy overwrites what another wave may still read, or sets out after it is needed.
    """
    made = [replace(turn, needs=needs) for turn, needs in zip(turns, _needs(turns), strict=True)]
    if all(turn.sends is None or not turn.direct for turn in turns):
        return tuple(made)
    for at, turn in enumerate(turns):
        assert turn.sends is not None
        _need_not_be_read(turns, at, *turn.sends)
    return tuple(replace(turn, wait=_under_way(turns, at)) for at, turn in enumerate(made))


def _needs(turns: Sequence[Turn]) -> list[tuple[str, ...]]:
    """For each turn the registers that it multiplies and that have not arrived before, in the order of their reads."""
    found: list[tuple[str, ...]] = []
    coming: list[str] = []
    for turn in [*turns, *turns]:  # the first step's reads come from before it
        coming = [*(r for r in coming if r != turn.into), turn.into]
        found.append(tuple(r for r in coming if r in ("rows", turn.cols)))
        coming = [r for r in coming if r not in found[-1]]
    return found[len(turns) :]


def _under_way(turns: Sequence[Turn], at: int) -> int:
    """How many copies may be under way behind turn ``at``, since the half that the next turn reads has landed."""
    following = turns[(at + 1) % len(turns)]
    wanted = (following.reads.name, following.half, following.ahead + (at + 1) // len(turns))
    count = 0
    for back in range(_STEPS * len(turns)):
        step, n = divmod(at - back, len(turns))
        sends = turns[n].sends
        assert sends is not None
        operand, half, ahead = sends
        if (operand.name, half, step + ahead) == wanted:
            return count
        count += operand.copies
    raise IRError(f"turn {(at + 1) % len(turns)} reads half {following.half} of {following.reads.name}, which nothing has sent",
                  hint="this is a fault of the emitter, not of the operator; please report it")


def _need_not_be_read(turns: Sequence[Turn], at: int, operand: StagedOperand, half: int, ahead: int) -> None:
    """A slice overwrites the one two before it: that must have been read in an earlier turn, two barriers ago."""
    gone = ahead - 2
    reads = [n + len(turns) * (gone - x.ahead) for n, x in enumerate(turns) if (x.reads, x.half) == (operand, half)]
    if not reads or max(reads) >= at:
        raise IRError(f"turn {at} overwrites half {half} of {operand.name} before all waves have read it",
                      hint="this is a fault of the emitter, not of the operator; please report it")


def quarters_in_order(quarters: Sequence[Quarter]) -> tuple[Quarter, ...]:
    """``quarters`` of one step with what they wait for.

    A barrier stands before the first quarter that overwrites the slot they have read from, or reads from the other one.  All
    that was read before it has arrived then, also what is multiplied later.
    """
    found: list[Quarter] = []
    coming: list[str] = []
    slot = first = quarters[0].reads[0][2]
    for n, q in enumerate([*quarters, *quarters]):  # the first step's reads come from before it
        if n == len(quarters) and slot != first:
            raise IRError("a step of quarters ends with another slot than it begins with",
                          hint="this is a fault of the emitter, not of the operator; please report it")
        barrier = any(of != slot for _, _, of, _ in q.reads) or any(ahead % 2 == slot for *_, ahead in q.sends)
        needs = tuple(r for r in coming if barrier or r in (q.rows, q.cols))
        coming = [*(r for r in coming if r not in needs), *(to for *_, to in q.reads)]
        slot = 1 - slot if barrier else slot
        found.append(replace(q, needs=needs, barrier=barrier))
    return tuple(found[len(quarters) :])
