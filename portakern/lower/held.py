"""Loops whose lanes meet where a block can hold them: which these are, and what their steps compute of sequences alone.

A state-space model sums its state against the weights of a step, the delta rule reads what its state has for a key before it
writes there, a normalised recurrence divides by the length of its state.  Their carries stay in registers from step to step as
those of lanes do that never meet.  Which axes a block then has all of: :mod:`portakern.lower.held_axes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from portakern.ir import tensor as tt
from portakern.ir.core import Arg, Op, Yield, yielded
from portakern.ir.rewrite import Rules
from portakern.lower.classes import axis_classes
from portakern.lower.domain import real
from portakern.lower.held_axes import LEAST, is_holdable, late_axes
from portakern.lower.steps import LANES, VIEWS, is_walked, moved_inside, on_arguments, waiting
from portakern.lower.thin import sum_of_products
from portakern.lower.uses import needed

rules = Rules()

FROM_CARRIES = (*LANES, tt.Fold, tt.Expand, tt.Transpose, Yield)
"""What a step does with what depends on its carries."""

MOST_HELD = 1 << 14
"""Elements of a state that a block is expected to hold, of 4 bytes: a quarter of the registers of an SM."""


# ---- products of vectors -------------------------------------------------------------------------------------------------


@rules.on(tt.Recur)
def without_thin_products(op: tt.Recur) -> Op | None:
    """A state times a vector is a sum of products, where all that is left are lanes that a block can hold; so is what a step
    multiplies of sequences alone, if it is summed along axes of which the block has all."""
    late = waiting(op)
    products = [o for o in op.step.ops if isinstance(o, tt.Contract)]
    thin = [o for o in products if _of_a_vector(o)]
    if not thin or any(o in late and o not in thin for o in products):
        return None
    made, sums = _summed(op, thin)
    if not _is_one_kernel(made):
        return None
    within = sums_within(made)
    kept = [o for o in thin if o in late or _is_outer(o) or _below_conversion(sums[o]) in within]
    return _summed(op, kept)[0] if kept else None


def _summed(op: tt.Recur, products: Sequence[Op]) -> tuple[tt.Recur, Mapping[Op, Op]]:
    """``op`` with sums in the place of ``products``, and what is now in the place of each operation."""
    new: dict[Op, Op] = {a: a for a in op.step.args}
    for o in op.step.ops:
        moved = o.remap(new.__getitem__)
        summed = sum_of_products(moved) if isinstance(moved, tt.Contract) and o in products else None
        new[o] = summed or moved
    ops = [o for o in needed([new[op.step.ops[-1]]]) if o not in op.step.args]
    return replace(op, step=replace(op.step, ops=tuple(ops))), new


@rules.on(tt.Recur)
def elementwise_inside(op: tt.Recur) -> Op | None:
    """What is computed element by element is done by the step that reads it, and stored nowhere."""
    _, elements, captured = op.given
    turned = {x: made for x in op.xs if (made := _below(x)) is not None}
    if turned:
        made = replace(op, xs=tuple(turned.get(x, x) for x in op.xs))
        return made if _is_one_kernel(op) else None
    same = (pair for pair in zip(captured, op.captured, strict=True) if pair[1].operands)
    inside = [(a, x, False) for a, x in same if isinstance(x, (*LANES, *VIEWS))]
    inside += [(a, x, True) for a, x in zip(elements, op.xs, strict=True) if isinstance(x, LANES)]
    if not inside or not _is_one_kernel(op):
        return None
    moved = (moved_inside(op, *each) for each in inside)
    return next((m for m in moved if _is_one_kernel(m)), None)


def _is_outer(op: tt.Contract) -> bool:
    """Whether nothing is summed."""
    return all(tt.tensor_type(op.lhs).shape[d] == 1 for d in op.lhs_axes)


def _is_one_kernel(op: tt.Recur) -> bool:
    return is_walked(op) or step_of(op) is not None


def _below_conversion(op: Op) -> Op:
    return op.x if isinstance(op, tt.Convert) else op


def _below(x: Op) -> Op | None:
    """A view of what is computed element by element, computed of views."""
    if not isinstance(x, tt.Transpose) or not isinstance(x.x, LANES):
        return None
    return x.x.remap(lambda o: tt.Transpose(o, x.order) if tt.tensor_type(o).shape else o)


def _of_a_vector(op: tt.Contract) -> bool:
    if _is_outer(op):
        return True
    sides = (op.lhs, op.lhs_free), (op.rhs, op.rhs_free)
    return any(all(tt.tensor_type(x).shape[d] == 1 for d in free) for x, free in sides)


# ---- which loops -----------------------------------------------------------------------------------------------------------


def step_of(op: tt.Recur) -> tt.TensorProgram | None:
    """The program of a step of which blocks can hold what meets; ``None`` where they cannot."""
    late = waiting(op)
    for inner in op.step.ops:
        allowed = FROM_CARRIES if inner in late else (*LANES, *VIEWS, tt.Fold, Yield)
        if not isinstance(inner, allowed) and not _is_reshape(inner, late):
            return None
    results, args = (*op.gives[0], *op.gives[1]), {a: a for a in op.step.args}
    made = on_arguments(tt.TensorProgram("step", op.step, ()), args, results, ("",) * len(results), walked=True)
    return made if is_holdable(made, axis_classes(made, {}), len(op.init)) else None


def sums_within(op: tt.Recur) -> set[Op]:
    """The reductions of what the elements of sequences give, along axes of which a block has all since carries meet there."""
    late = waiting(op)
    folds = [o for o in op.step.ops if isinstance(o, tt.Fold)]
    early = [f for f in folds if f not in late]
    if not early or len(early) == len(folds) or step_of(op) is None:
        return set()
    step = tt.TensorProgram("step", op.step, ("",) * len(yielded(op.step)))
    classes = axis_classes(step, {})
    along = {f: set(real(classes.of_operand(f, 0)[a] for a in f.axes)) for f in folds}
    met = set().union(*(along[f] for f in folds if f in late))
    cut = late_axes(step, classes, len(op.init))
    held = math.prod(min(c.extent, LEAST) if c in cut else c.extent for c in met if isinstance(c.extent, int))
    return {f for f in early if held <= MOST_HELD and along[f] <= met}


def _is_reshape(op: Op, late: set[Op]) -> bool:
    """Of an array, or one that only has other dims of one element."""
    if not isinstance(op, tt.Reshape):
        return False
    before, after = ([s for s in shape if s != 1] for shape in (tt.tensor_type(op.x).shape, op.shape))
    return before == after or (op not in late and isinstance(op.x, Arg))
