"""The operations of a block in order, on values with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from portakern.ir import tensor as t
from portakern.ir.core import Block, Op, Yield, yielded

from .conversion import rounded_at_some_scale
from .rules import RULES
from .slabs import in_slabs
from .value import Val, may_change_sign


def apply_block(block: Block, args: Sequence[Val]) -> tuple[Val, ...]:
    """What ``block`` gives for values of its arguments."""
    values = values_of(block, args)
    return tuple(values[v] for v in yielded(block))


def values_of(block: Block, args: Sequence[Val]) -> dict[Op, Any]:
    """Every value of ``block``; a tuple where an operation gives several."""
    values: dict[Op, Any] = dict(zip(block.args, args, strict=True))
    loose = contraction_only(block)
    for op in block.ops:
        if not isinstance(op, Yield):
            values[op] = bounded(op, [values[o] for o in op.operands], op in loose)
    return values


def bounded(op: Op, given: Sequence[Any], loose: bool) -> Any:
    """The result of one operation; ``loose`` is whether it is a conversion for contractions alone."""
    if isinstance(op, t.Map | t.Convert):
        rule = rounded_at_some_scale if loose else RULES[type(op)]
        made = in_slabs(partial(rule, op), given, np.broadcast_shapes(*(v.x.shape for v in given)))
    else:
        made = RULES[type(op)](op, *given)  # type: ignore[arg-type]
    return replace(made, cancels=True) if isinstance(made, Val) and _cancels(made, given) else made


def _cancels(made: Val, given: Sequence[Any]) -> bool:
    """Of a sum or of what is made of one."""
    if made.cancels or any(isinstance(v, Val) and v.cancels for v in given):
        return True
    return made.sum is not None and may_change_sign(made, made.sum.total)


_VIEWS = (t.Transpose, t.Reshape, t.Expand, t.Slice)


_PRODUCTS = (t.Contract, t.SegmentContract, t.Convolve)


def contraction_only(block: Block) -> set[Op]:
    """Narrowing conversions whose every use, seen through views, is as the operand of a contraction."""
    users: dict[Op, list[Op]] = {}
    for op in block.ops:
        for o in op.operands:
            users.setdefault(o, []).append(op)

    def only(op: Op) -> bool:
        return all(isinstance(u, _PRODUCTS) or (isinstance(u, _VIEWS) and only(u)) for u in users[op])

    return {op for op in block.ops if isinstance(op, t.Convert) and users.get(op) and only(op)}
