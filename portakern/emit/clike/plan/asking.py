"""What can be asked of every statement, those of a platform too: what it reads and makes, and how it is under other names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from portakern.emit.clike.layouts import Layout, Place
from portakern.emit.clike.terms import Apply, Name, PlanTerm, Word

from .kernels import KernelPlan
from .nodes import Block, Combine, Loop, Operand, Pipeline, Scalar, ScanBy, Shared, Statement, StatementPart


def statements(block: Sequence[Statement]) -> list[Statement]:
    """All statements, those inside loops (and the copies of their pipelines) too."""
    found: list[Statement] = []
    for s in block:
        found.append(s)
        if isinstance(s, Loop | Block):
            found += statements(s.body)
        if isinstance(s, Loop) and s.pipeline:
            found += s.pipeline.copies
    return found


def kind(s: Statement) -> str:
    """What ``s`` is, in words: ``store to shared``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(s).__name__).lower()


# ---- what they read, and under which names ----------------------------------------------------------------------------

S = TypeVar("S", bound="Statement | StatementPart | Operand | Pipeline")


def reads(*parts: Any) -> frozenset[str]:
    """The names that statements, terms and parts of these read; sequences are looked through."""
    return frozenset().union(*map(_reads, parts))


def _reads(x: Any) -> frozenset[str]:
    match x:
        case PlanTerm():
            return x.reads
        case Shared():
            return frozenset({x.name})
        case Operand():
            return frozenset({x.name, x.slot} if x.shared and not x.slot.isdigit() else {x.name})
        case Pipeline():
            return reads(x.copies) - {x.slot}
        case Statement():
            return _read_by(x)
        case StatementPart():
            return reads(*(getattr(x, f.name) for f in fields(x) if f.name not in x.UNREAD))
        case tuple() | list():
            return reads(*x)
    return frozenset()


def _read_by(s: Statement) -> frozenset[str]:
    made = s.MADE if getattr(s, "define", True) else ()
    named = frozenset(getattr(s, f).partition(".")[0] for f in s.NAMES if f not in made and getattr(s, f))
    named = frozenset(x for x in named if not x.isdigit())  # a slot may be the only one
    inside = {name for f in s.INSIDE for _, name, *_ in getattr(s, f)}
    if isinstance(s, Combine):
        named = named | {name for _, name in s.fields}
    if isinstance(s, Combine | ScanBy):
        inside = inside | {*s.sides}
    parts = reads(*(getattr(s, f.name) for f in fields(s) if f.name not in (*s.UNREAD, *s.GIVEN)))
    given = reads(*(getattr(s, f) for f in s.GIVEN))
    return named | given | (parts - inside - {getattr(s, f) for f in made if isinstance(s, Loop)})


def made(s: Statement) -> frozenset[str]:
    """The names that ``s`` makes, for those after it to read."""
    return frozenset(getattr(s, f) for f in s.MADE) if getattr(s, "define", True) else frozenset()


def words(*parts: Any) -> frozenset[str]:
    """Words of the platform, as the index of the block, in statements, terms and parts of these."""
    return frozenset(x.text for term in _terms(parts) for x in term.parts() if isinstance(x, Word))


def calls(*parts: Any) -> frozenset[str]:
    """Words of the vocabulary that terms call, in statements, terms and parts of these."""
    return frozenset(x.word for term in _terms(parts) for x in term.parts() if isinstance(x, Apply) and x.word)


def _terms(x: Any) -> Iterator[PlanTerm]:
    if isinstance(x, PlanTerm):
        yield x
    elif isinstance(x, tuple | list):
        for y in x:
            yield from _terms(y)
    elif isinstance(x, Statement | StatementPart | Operand | Pipeline):
        for f in fields(x):
            yield from _terms(getattr(x, f.name))


def used(block: Sequence[Statement], *later: Any) -> tuple[Statement, ...]:
    """``block`` without the scalars that nobody reads, in it or ``later``."""
    wanted = reads(*block, *later)
    return tuple(s for s in block if not isinstance(s, Scalar) or s.name in wanted)


def relaid(x: Any, layouts: Mapping[Layout, Layout]) -> Any:
    """A plan, a statement or a part of one with other layouts in place of these."""
    match x:
        case Layout():
            return layouts.get(x, x)
        case Statement() | StatementPart() | Operand() | Pipeline() | Place() | KernelPlan():
            return replace(x, **{f.name: relaid(getattr(x, f.name), layouts) for f in fields(x)})
        case tuple():
            return tuple(relaid(y, layouts) for y in x)
    return x


def renamed(x: S, names: Mapping[str, str]) -> S:
    """A statement, or a part of one, with other names for variables; those inside it change with them."""
    changed: dict[str, Any] = {}
    for f in fields(x):
        flagged = isinstance(x, Statement) and f.name in (*x.NAMES, *x.INSIDE)
        changed[f.name] = _renamed(getattr(x, f.name), names, flagged or f.name in ("held", "slot", "sides", "fields"))
    return replace(x, **changed)


def _renamed(x: Any, names: Mapping[str, str], named: bool) -> Any:
    match x:
        case PlanTerm():
            return x.renamed(names)
        case Statement() | StatementPart() | Operand() | Pipeline():
            return renamed(x, names)
        case str() if named:
            return str(Name(x).called(names))
        case tuple():
            return tuple(_renamed(y, names, named) for y in x)
    return x
