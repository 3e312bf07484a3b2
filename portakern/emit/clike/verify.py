"""What every plan keeps: a name is read only where something has made it, a place is of a layout of the kernel, and a map that
captures nothing reads its parameters alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Place
from portakern.errors import IRError


def verify(plan: p.KernelPlan) -> None:
    """Raises :class:`IRError` naming the first statement that breaks a rule."""
    known = frozenset({*(q.name for q in plan.params), *(x.name for x in plan.layouts), *(s.name for s in plan.shared)})
    for part in plan.scopes():
        _Scope(plan, known | part.given).block(part.statements)


class _Scope:
    """A block of a kernel, with the names that its statements may read."""

    def __init__(self, plan: p.KernelPlan, known: frozenset[str]) -> None:
        self.plan, self.known = plan, known

    def block(self, statements: Sequence[p.Statement]) -> None:
        for s in statements:
            if isinstance(s, p.Loop):
                self._loop(s)
                continue
            if isinstance(s, p.Block):
                self._readable(s, p.reads(s.when))
                _Scope(self.plan, self.known).block(s.body)
                continue
            self._readable(s, p.reads(s))
            self._placed(s)
            if isinstance(s, p.Map) and not s.captures:
                own = {name for f in s.INSIDE for _, name, *_ in getattr(s, f)}
                self._need(s, p.reads(*(x for *_, x in s.locals), s.result) <= own, "captures nothing and reads outer names")
            self.known |= p.made(s)

    def _loop(self, s: p.Loop) -> None:
        self._readable(s, p.reads(s.begin, s.end))
        inside = self.known | {s.var}
        if s.pipeline is not None:
            inside |= {s.pipeline.slot}
            _Scope(self.plan, inside).block(s.pipeline.copies)
        _Scope(self.plan, inside).block(s.body)

    def _readable(self, s: p.Statement, names: Iterable[str]) -> None:
        missing = sorted(set(names) - self.known)
        self._need(s, not missing, f"reads {', '.join(missing)}, which nothing before it makes")

    def _placed(self, s: p.Statement) -> None:
        for place in (getattr(s, f.name) for f in fields(s)):
            if isinstance(place, Place):
                held = place.layout in self.plan.layouts
                self._need(s, held, f"is in the layout {place.layout.name}, which is not the kernel's")

    def _need(self, s: p.Statement, holds: bool, otherwise: str) -> None:
        if not holds:
            raise IRError(f"the plan of {self.plan.name} is not sound: `{str(s).splitlines()[0]}` {otherwise}",
                          hint="this is a fault of the emitter, not of the operator; please report it")
