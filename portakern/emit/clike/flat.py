"""Loops in one another that only walk to one product become one loop, whose operands travel ahead across all of its steps.

A convolution walks the taps of its window and then their channels.  Where the channels take a step or two, a pipeline of that
loop alone is over before its copies are hidden, and begins anew at every tap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

from portakern.emit.clike import plan as p
from portakern.emit.clike.terms import ZERO, Apply, Name, PlanTerm, add, divide, multiply, number, remainder, whole

FEW = 8
"""Steps of the innermost loop, from which on what its pipeline waits for at its beginning counts for little."""


def nest_of(loop: p.Loop) -> tuple[p.Loop, ...]:
    """``loop`` and those that are all that one does, the innermost last."""
    found = [loop]
    while found[-1].pipeline is None:
        body = [s for s in found[-1].body if not isinstance(s, p.Sync)]
        if len(body) != 1 or not isinstance(body[0], p.Loop):
            break
        found.append(body[0])
    return tuple(found)


def flattened(body: Sequence[p.Statement]) -> tuple[p.Statement, ...]:
    """``body`` with such nests as one loop; the barriers between the loops go with them, since a pipeline has its own."""
    return tuple(_flat(s) if isinstance(s, p.Loop) else s for s in body)


def _flat(loop: p.Loop) -> p.Loop:
    nest = nest_of(loop)
    inner, counts = nest[-1], [_steps(x) for x in nest]
    known = [n for n in counts if n is not None]
    if inner.pipeline is None or len(nest) == 1 or len(known) < len(nest) or counts[-1] >= FEW:  # type: ignore[operator]
        return replace(loop, body=flattened(loop.body))
    var = next(f"step{tail}" for tail in ("", *map(str, range(len(nest) + 2))) if not _named(loop, f"step{tail}"))
    at: dict[str, PlanTerm] = {}
    for n, x in enumerate(nest):
        left = prod(known[n + 1 :])
        index = divide(Name(var), whole(left)) if left > 1 else Name(var)
        index = ZERO if known[n] == 1 else remainder(index, whole(known[n])) if any(k > 1 for k in known[:n]) else index
        at[x.var] = multiply(index, whole(x.step))
    walked = ", ".join(f"{n} along {x.var.removesuffix('0')}" for n, x in zip(known, nest, strict=True) if n > 1)
    return replace(inner, var=var, end=whole(prod(known)), step=1, body=substituted(inner.body, at),
                   pipeline=substituted(inner.pipeline, at), note=f"every step: {walked}")  # fmt: skip


def _steps(loop: p.Loop) -> int | None:
    """How many steps a loop from 0 has; ``None`` where that is not known."""
    end = number(loop.end)
    return -(-end // loop.step) if loop.begin == ZERO and end else None


def _named(loop: p.Loop, name: str) -> bool:
    return name in p.reads(loop) or any(name in (*p.made(s), getattr(s, "var", "")) for s in p.statements([loop]))


def substituted(x: Any, terms: Mapping[str, PlanTerm]) -> Any:
    """Statements and parts of them with terms in place of these names."""
    match x:
        case PlanTerm():
            return x.rewritten(lambda y: _with(y, terms))
        case p.Statement() | p.StatementPart() | p.Operand() | p.Pipeline():
            return replace(x, **{f.name: substituted(getattr(x, f.name), terms) for f in fields(x)})
        case tuple():
            return tuple(substituted(y, terms) for y in x)
    return x


def _with(x: PlanTerm, terms: Mapping[str, PlanTerm]) -> PlanTerm:
    """A term whose operands have been replaced: zeros among them are left out."""
    if isinstance(x, Name):
        return terms.get(x.name, x)
    simpler = _SIMPLER.get(x.fn) if isinstance(x, Apply) else None
    return simpler(*x.operands) if simpler and isinstance(x, Apply) and ZERO in x.operands else x


_SIMPLER = {"add": add, "mul": multiply}
