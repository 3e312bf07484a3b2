"""Products that sum masked weights of a softmax over its rows: they need no weights of zero, and say so.

A weight of a score that is masked to -inf is 0, unless its row's maximum is NaN or -inf: then it is NaN, as all weights of that
row are.  A walk along the rows, as for the gradient of an attention's values, would leave out the tiles that are masked whole,
as one along the keys does, but for such rows.  So the product is of weights that are *selected* to be 0, which bounds its walk
(:func:`portakern.lower.bounds.bounds_of_zeros`), and what a masked weight is in each row is summed apart: one number for
all keys, 0 or NaN, which is added to the product.
"""

from __future__ import annotations

import math
from dataclasses import replace

from portakern.dtypes import DTYPES
from portakern.ir.core import Block, Op
from portakern.ir.rewrite import canonicalise
from portakern.ir.size import product
from portakern.ir.tensor import Contract, Convert, Expand, Fold, Literal, Map, Reshape, TensorProgram, tensor_type
from portakern.lower.bounds import find_bounds
from portakern.lower.classes import Classes
from portakern.lower.online import Softmax, Weights, match_weights, through_casts, through_moves

LEAST = 1 << 22
"""Weights of which half can be left out for the work of one more kernel: of 64 heads of 256 queries and keys.
Not measured: a launch takes some microseconds."""


def without_masked_weights(program: TensorProgram, classes: Classes) -> TensorProgram:
    """``program`` with masked weights selected to be 0 where a product sums them over their rows."""
    numbers = {op: n for op in program.body.ops if isinstance(op, Contract) and (n := _masked(op, classes)) is not None}
    if not numbers:
        return program
    new: dict[Op, Op] = {}
    for op in program.body.ops:
        made = op.remap(lambda o: new.get(o, o))
        if isinstance(op, Contract) and isinstance(made, Contract) and op in numbers:
            made = _apart(made, numbers[op])
        new[op] = made
    return canonicalise(replace(program, body=Block(program.body.args, tuple(new.values()))))


def _masked(op: Contract, classes: Classes) -> int | None:
    """Which operand of ``op`` is made of masked weights whose rows are summed, one row after the other."""
    for number, x in enumerate(op.operands):
        found, (batch, summed, free) = _weights_in(x), _dims(op, number)
        if found is None or not summed or not _worth_it(x) or free != (found.softmax.axis,) or list(batch) != sorted(batch):
            continue
        soft, along = found.softmax, classes.of_operand(op, number)
        bounds = find_bounds(soft.s, along[max(summed)], classes)
        if _mask_of(soft.s) and _of_rows(found.factor, soft) and any(b.row is along[soft.axis] for b in bounds):
            return number
    return None


def _dims(op: Contract, number: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The dims of an operand that are of a batch, summed, and kept."""
    if number == 0:
        return op.lhs_batch, op.lhs_axes, op.lhs_free
    return op.rhs_batch, op.rhs_axes, op.rhs_free


def _weights_in(op: Op) -> Weights | None:
    """The weights that ``op`` is, or is a product of with what is finite: 0 times infinity is NaN, and not to be left out."""
    op = through_casts(op)
    if found := match_weights(op):
        return found
    if isinstance(op, Map) and op.fn == "mul":
        return next((found for x, y in (op.args, op.args[::-1]) if _is_finite(y) and (found := _weights_in(x))), None)
    return None


def _is_finite(op: Op) -> bool:
    """Whether ``op`` has no infinity and no NaN, whatever the inputs hold: it is made of integers or of truths."""
    match op:
        case Expand() | Reshape():
            return _is_finite(op.x)
        case Literal():
            return math.isfinite(op.value)
        case Convert():
            have, to = DTYPES[tensor_type(op.x).dtype], DTYPES[op.dtype]
            if have.is_float:
                return to.largest >= have.largest and _is_finite(op.x)
            return have.bits <= 8 or to.largest > 2.0**64
        case Map(fn="select", args=(_, yes, no)):
            return _is_finite(yes) and _is_finite(no)
    return False


def _worth_it(weights: Op) -> bool:
    count = product(tensor_type(weights).shape)
    return not isinstance(count, int) or count >= LEAST


def _mask_of(scores: Op) -> tuple[Op, bool] | None:
    """The test by which scores are masked to -inf, and what it is where they are not."""
    scores = through_casts(scores)
    if not isinstance(scores, Map) or scores.fn != "select":
        return None
    test, yes, no = scores.args
    if tensor_type(test).shape != tensor_type(scores).shape:
        return None
    for other, kept in ((no, True), (yes, False)):
        value = through_moves(other)
        if isinstance(value, Literal) and value.value == -math.inf:
            return test, kept
    return None


def _of_rows(factor: Op | None, soft: Softmax) -> bool:
    """Whether ``factor`` is one number for each row, of the same dims as its maximum."""
    return factor is not None and tensor_type(through_moves(factor)).shape == tensor_type(soft.m).shape


def _apart(op: Contract, number: int) -> Op:
    """``op`` of weights that are selected, plus what masked ones are."""
    x = op.operands[number]
    found = _weights_in(x)
    mask = _mask_of(found.softmax.s) if found else None
    assert found is not None and mask is not None
    test, kept = mask
    zero = Literal(0.0, tensor_type(x).dtype)
    selected = Map("select", (test, x, zero) if kept else (test, zero, x), loc=op.loc)
    total = replace(op, **{("lhs", "rhs")[number]: selected})
    axis, (_, summed, _) = found.softmax.axis, _dims(op, number)
    masked = Fold("sum", _masked_of_rows(found), tuple(sorted(d - (d > axis) for d in summed)), loc=op.loc)
    return Map("add", (total, _for_all(masked, total)), loc=op.loc)


def _masked_of_rows(found: Weights) -> Op:
    """What a masked weight is in each row: 0, or NaN."""
    soft, factor = found.softmax, through_moves(found.factor)  # type: ignore[arg-type]
    m: Op = soft.m
    least = Map("sub", (Literal(-math.inf, tensor_type(m).dtype), m))
    made: Op = Map(soft.e.fn, (least,))  # type: ignore[attr-defined]
    if tensor_type(made).dtype != (dtype := tensor_type(factor).dtype):
        made = Convert(made, dtype)
    return Map("mul", (made, factor))


def _for_all(x: Op, like: Op) -> Op:
    """``x``, which has the batch dims of a product, for each of its elements."""
    have = tensor_type(like)
    if tensor_type(x).dtype != have.dtype:
        x = Convert(x, have.dtype)
    return Expand(x, have.shape, tuple(range(len(tensor_type(x).shape))))
