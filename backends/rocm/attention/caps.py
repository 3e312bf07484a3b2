"""Scores that are capped: ``cap * tanh(score / cap)``.

Only exponentials read them, so that an error counts next to 1 and not next to the score itself: a power and a reciprocal will
do (``pk::tanh_of_score``), where a tanh that is exact near 0 takes several times as many instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import dims_of
from portakern.emit.clike.terms import Apply, PlanTerm
from portakern.emit.softmax import of_narrow_products
from portakern.ir import tile as t
from portakern.ir.core import Op

_POWERS = ("exp", "exp2")


def with_capped_scores(plan: KernelPlan, kernel: t.Kernel) -> KernelPlan:
    """``plan`` with the tanh of scores alone in few instructions, where weights have 16 bits."""
    ops = list(kernel.body.walk())
    scores = next((dims_of(op) for op in ops if isinstance(op, t.Dot)), ())
    capped = [op for op in ops if isinstance(op, t.Unary) and op.fn == "tanh" and dims_of(op) == scores]
    if kernel.family != "attention" or not capped or not of_narrow_products(kernel) or any(map(_of_powers, capped)):
        return plan
    return replace(plan, body=_rewritten(plan.body, tuple(axis for axis, _ in scores)))


def _of_powers(op: Op) -> bool:
    """Whether ``op`` is computed from exponentials of its own step."""
    return any((isinstance(x, t.Unary) and x.fn in _POWERS) or _of_powers(x) for x in op.operands)


def _rewritten(body: Sequence[p.Statement], axes: tuple[str, ...]) -> tuple[p.Statement, ...]:
    return tuple(_statement(s, axes) for s in body)


def _statement(s: p.Statement, axes: tuple[str, ...]) -> p.Statement:
    if isinstance(s, p.Loop):
        return replace(s, body=_rewritten(s.body, axes))
    if isinstance(s, p.Map) and s.place.side == "tile" and s.place.layout.axes == axes and s.dtype == "f32":
        locals_ = tuple((dtype, name, x.rewritten(_tanh)) for dtype, name, x in s.locals)
        return replace(s, result=s.result.rewritten(_tanh), locals=locals_)
    return s


def _tanh(x: PlanTerm) -> PlanTerm:
    return replace(x, template=x.template.replace("tanh", "tanh_of_score")) if isinstance(x, Apply) and x.word == "tanh" else x
