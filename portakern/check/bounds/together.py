"""Several runs of the same operations on other values, as probes make them.

Where the right side of a product is the same array in all of them, a weight say, they are one product of more rows: those of
a few rows take as long as reading the weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portakern.ir import oracle
from portakern.ir import tensor as t
from portakern.ir.core import Block, Op, Yield, yielded
from portakern.ir.oracle import Value

MOST_ELEMENTS = 1 << 20
"""Of the left side of a run: products of more rows gain nothing, and would take the memory of all runs at once."""


def apply(op: Op, runs: Sequence[Sequence[Value]]) -> list[Value]:
    """What ``op`` gives for the operands of each run."""
    if isinstance(op, t.Recur):
        return _recur(op, runs)
    if isinstance(op, t.Contract) and op.lhs_free and _shares_its_right_side(runs):
        return _product(op, [a for a, _ in runs], runs[0][1])
    return [oracle.apply(op, given) for given in runs]


def apply_block(block: Block, runs: Sequence[Sequence[Value]]) -> list[tuple[Value, ...]]:
    """What ``block`` gives for the arguments of each run."""
    values: list[dict[Op, Value]] = [dict(zip(block.args, args, strict=True)) for args in runs]
    for op in block.ops:
        if not isinstance(op, Yield):
            for known, made in zip(values, apply(op, [[known[o] for o in op.operands] for known in values]), strict=True):
                known[op] = made
    return [tuple(known[v] for v in yielded(block)) for known in values]


def _shares_its_right_side(runs: Sequence[Sequence[Value]]) -> bool:
    a, b = runs[0]
    return len(runs) > 1 and a.size <= MOST_ELEMENTS and all(other is b for _, other in runs)


def _product(op: t.Contract, lefts: Sequence[np.ndarray], right: np.ndarray) -> list[Value]:
    found = oracle.contract(op, np.concatenate(lefts, op.lhs_free[0]), right)
    return np.split(found, len(lefts), len(op.lhs_batch))


def _recur(op: t.Recur, runs: Sequence[Sequence[Value]]) -> list[Value]:
    return oracle.recur(op, runs, lambda args: apply_block(op.step, args))
