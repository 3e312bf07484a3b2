"""Barriers of the block: where they stand follows from who writes and who reads shared operands, and in which step.

Copies (``CopyToShared``), tiles from registers (``StoreToShared``) and products are done by all threads together, each of
which goes on when its own part is done.  So an operand that was written since the last barrier may not be read yet, and one
that was read, or written, may not be written again.  What a loop leaves behind meets its own next step, and whatever follows
it:

    for m:                      # a step of m begins where the one before has left off
        for k, copied ahead:    # the first copies of k overwrite what its last product may still read
            dot(acc, a[slot], b[slot])

A pipelined loop has a barrier at the head of each step (see :meth:`.printer.Printer.pipelined`), which orders its own copies;
what came before it meets the copies that are started ahead of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from portakern.emit.clike import plan as p

_WRITTEN = "the operand is complete"
_ARRIVED = "this step's operands are complete"
_READ_BEFORE = "the loop before has read its operands"
_READ_BY_STEP = "the previous step has read its operands"


@dataclass(frozen=True)
class Pending:
    """Names of shared operands: of copies that were started and not waited for, and of what some thread may have written or
    read since the last barrier.  ``carried`` were read in an earlier step of the loop around."""

    started: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()

    def __or__(self, other: Pending) -> Pending:
        return Pending(*(mine | theirs for mine, theirs in zip(self.sets, other.sets, strict=True)))

    @property
    def sets(self) -> tuple[frozenset[str], ...]:
        return (self.started, self.written, self.read, self.carried)

    def after(self, s: p.Statement) -> Pending:
        match s:
            case p.Sync():
                return Pending(self.started)
            case p.Wait():
                return replace(self, started=frozenset(), written=self.written | self.started)
            case p.CopyToShared():
                return replace(self, started=self.started | {s.shared.name})
            case p.StoreToShared():
                return replace(self, written=self.written | {s.shared.name})
            case p.Dot():
                return replace(self, read=self.read | _read_by(s), carried=self.carried - _read_by(s))
        return self

    def one_step_later(self) -> Pending:
        return replace(self, carried=self.read)

    def before_writing(self, names: frozenset[str]) -> str | None:
        """Why a barrier must stand before ``names`` are written; ``None`` where none must."""
        if self.read & names:
            return _READ_BY_STEP if self.read & names <= self.carried else _READ_BEFORE
        return _WRITTEN if self.written & names else None


NOTHING = Pending()


def synchronised(body: Sequence[p.Statement]) -> tuple[p.Statement, ...]:
    """``body``, which has no barriers yet, with those that its shared operands need."""
    return _ordered(body, NOTHING)[0]


def _ordered(body: Sequence[p.Statement], pending: Pending) -> tuple[tuple[p.Statement, ...], Pending]:
    """``body`` with its barriers, where ``pending`` came before; and what is pending behind it."""
    made: list[p.Statement] = []
    for s in body:
        if isinstance(s, p.Loop):
            before, s, pending = _around(s, pending)
            made += [*before, s]
            continue
        if isinstance(s, p.CopyToShared | p.StoreToShared):
            why = pending.before_writing(frozenset({s.shared.name}))
            pending = pending if why is None else _insert(made, _before_copies(made), why, pending)
        elif isinstance(s, p.Dot) and pending.written & _read_by(s):
            pending = _insert(made, *_behind_writes(made), pending)
        made.append(s)
        pending = pending.after(s)
    return tuple(made), pending


def _read_by(s: p.Dot) -> frozenset[str]:
    return frozenset(x.name for x in (s.a, s.b) if x.shared is not None)


def _insert(made: list[p.Statement], at: int, why: str, pending: Pending) -> Pending:
    """Puts a barrier into ``made``; what is pending at its end then."""
    behind = made[at:]
    made.insert(at, p.Sync(why))
    left = Pending(pending.started)
    for s in behind:
        left = left.after(s)
    return left


def _before_copies(made: Sequence[p.Statement]) -> int:
    """Where the copies begin that ``made`` ends with: they are started together."""
    at = len(made)
    while at and isinstance(made[at - 1], p.CopyToShared):
        at -= 1
    return at


def _behind_writes(made: Sequence[p.Statement]) -> tuple[int, str]:
    """Behind the last write or wait, where a reader of the kernel looks for the barrier that makes operands readable."""
    ends = (p.StoreToShared, p.Wait, p.Loop)
    last = next((n for n in reversed(range(len(made))) if isinstance(made[n], ends)), len(made) - 1)
    return last + 1, _ARRIVED if made and isinstance(made[last], p.Wait) else _WRITTEN


# ---- loops --------------------------------------------------------------------------------------------------------------


def _around(s: p.Loop, pending: Pending) -> tuple[list[p.Statement], p.Loop, Pending]:
    """A barrier before the loop where one must stand there, the loop with its own, and what is pending behind it."""
    if s.pipeline is not None:
        why = pending.before_writing(frozenset(c.shared.name for c in s.pipeline.copies))
        pending = pending if why is None else NOTHING
        body, left = _ordered(s.body, NOTHING)  # its head has a barrier
        return [] if why is None else [p.Sync(why)], replace(s, body=body), pending | left
    body, left = _repeated(s.body)
    again, beyond = _ordered(s.body, pending | left.one_step_later())
    if again == body:
        return [], replace(s, body=body), pending | beyond
    why = _first_new(body, again)  # only the first step meets what came before the loop
    return [p.Sync(why)], replace(s, body=body), left


def _repeated(body: Sequence[p.Statement]) -> tuple[tuple[p.Statement, ...], Pending]:
    """The body of a loop with the barriers that its own steps need of each other, and what each of them leaves behind."""
    left = NOTHING
    while True:
        made, after = _ordered(body, left.one_step_later())
        if left | after == left:
            return made, left
        left = left | after


def _first_new(body: Sequence[p.Statement], more: Sequence[p.Statement]) -> str:
    """What the first barrier is for that ``more`` has and ``body`` has not."""
    for have, s in zip_longest(body, more):
        if have != s and isinstance(s, p.Sync):
            return s.note
        if have != s and isinstance(s, p.Loop) and isinstance(have, p.Loop):
            return _first_new(have.body, s.body)
    return _WRITTEN
