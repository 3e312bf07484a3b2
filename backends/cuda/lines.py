"""Operands of fused multiply-adds in lines along the contracted axis.

A lane then reads its rows of the left operand and its columns of the right one for one coordinate of that axis in a few wide
accesses, at places the compiler knows.  A left operand that lies row by row in memory is turned on its way to shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p

WARP = 32
PADDING = 4
"""Elements between rows: see pk::Lines."""


@dataclass(frozen=True)
class Lines(p.Shared):
    """``turned``: rows of the array become columns.  ``padding``: elements between rows."""

    turned: bool = False
    padding: int = PADDING

    def __str__(self) -> str:
        return super().__str__() + ", in lines" + (", turned on the way" if self.turned else "")


def in_lines(plan: KernelPlan) -> KernelPlan:
    """``plan`` with the operands of its product in lines along the contracted axis, where it is one exact product of 32-bit
    floats from memory."""
    dots = [s for s in _all(plan.body) if isinstance(s, p.Dot)]
    stages = [s for s in _all(plan.body) if isinstance(s, p.CopyToShared)]
    if len(dots) != 1 or (dots[0].element, dots[0].precision) != ("f32", "ieee"):
        return plan
    if not all(goes_into_lines(s, plan.threads) for s in stages):
        return plan
    operands = [x.shared for x in (dots[0].a, dots[0].b)]
    if None in operands or {s.shared for s in stages} != set(plan.shared) or set(operands) != set(plan.shared):
        return plan
    return moved(plan, {s: _lines(s) for s in plan.shared})


def goes_into_lines(copy: p.CopyToShared, threads: int) -> bool:
    """Whether ``copy`` can be made to lines: nothing is picked, or each warp finds columns of its own (see pk/pixels.cuh)."""
    across = min(copy.shared.cols, threads)
    whole = across % WARP == 0 and copy.shared.cols % across == 0 and threads % across == 0
    return not copy.picks or (copy.planes and whole and copy.shared.rows % (threads // across) == 0)


def moved(plan: KernelPlan, lines: dict[p.Shared, Lines]) -> KernelPlan:
    """``plan`` with its operands in these."""
    shared = tuple(lines.get(s, s) for s in plan.shared)
    return replace(plan, shared=shared, body=tuple(_moved(s, lines) for s in plan.body))


def _lines(s: p.Shared) -> Lines:
    turned = s.transposed != (s.role == "A")
    rows, cols = (s.cols, s.rows) if turned else (s.rows, s.cols)
    return Lines(s.name, s.dtype, rows, cols, s.slots, s.role, s.role == "A", s.why, turned)


def _all(block: Sequence[p.Statement]) -> list[p.Statement]:
    found: list[p.Statement] = []
    for s in block:
        found.append(s)
        if isinstance(s, p.Loop):
            found += [*_all(s.body), *(s.pipeline.copies if s.pipeline else ())]
    return found


def _moved(s: p.Statement, lines: dict[p.Shared, Lines]) -> p.Statement:
    if isinstance(s, p.CopyToShared):
        return replace(s, shared=lines.get(s.shared, s.shared))
    if isinstance(s, p.Dot):
        return replace(s, a=_operand(s.a, lines), b=_operand(s.b, lines))
    if isinstance(s, p.Loop):
        pipe = s.pipeline and replace(s.pipeline, copies=tuple(replace(c, shared=lines.get(c.shared, c.shared))
                                                               for c in s.pipeline.copies))  # fmt: skip
        return replace(s, body=tuple(_moved(x, lines) for x in s.body), pipeline=pipe)
    return s


def _operand(x: p.Operand, lines: dict[p.Shared, Lines]) -> p.Operand:
    if x.shared not in lines:
        return x
    held = lines[x.shared]
    return replace(x, held=held, transposed=x.transposed != held.turned)
