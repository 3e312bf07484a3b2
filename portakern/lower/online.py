"""Finds a softmax in the dataflow: exponentials shifted by their own maximum, and what is summed over them; and where an
extreme lies.

What is looked for is ``e = exp(s - max(s))`` reduced along the axis of that maximum: by a sum, by a contraction with
another array, or both.  Such sums can be kept while walking the axis once (the online softmax of Milakov and Gimelshein
2018, attention in Dao et al. 2022), whatever ``s`` is: scores of two arrays, with a bias, a mask, a cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.ir.core import Op
from portakern.ir.rewrite import Rules
from portakern.ir.tensor import Contract, Convert, Expand, Fold, Iota, Literal, Map, Reshape, tensor_type
from portakern.ir.tile import identity
from portakern.lower.classes import AxisClass, Classes, is_thin


@dataclass(frozen=True, eq=False)
class Softmax:
    """``e = exp(s - m)`` with ``m`` the maximum of ``s`` along dim ``axis`` of ``s``."""

    s: Op
    e: Op
    m: Fold
    axis: int


@dataclass(frozen=True, eq=False)
class Place:
    """The least of the coordinates along an axis at which an array holds its ``extreme`` along it, or ``far`` away."""

    extreme: Fold
    far: Literal


def match_place(fold: Fold) -> Place | None:
    """``fold`` as the first place of an extreme, or of NaN, which is the extreme where there is one."""
    chosen = fold.x
    if fold.fn != "min" or len(fold.axes) != 1 or not isinstance(chosen, Map) or chosen.fn != "select":
        return None
    hit, place, far = chosen.args
    if not isinstance(place, Iota) or place.axis != fold.axes[0] or not isinstance(far, Literal):
        return None
    if far.value != identity("min", far.dtype):  # any other number would count, and before there is an element, too
        return None
    equal = hit.args[0] if isinstance(hit, Map) and hit.fn == "or" else hit
    if not isinstance(equal, Map) or equal.fn != "eq":
        return None
    x, extreme = equal.args[0], through_moves(equal.args[1])
    if not isinstance(extreme, Fold) or extreme.fn not in ("max", "min") or extreme.axes != fold.axes or extreme.x is not x:
        return None
    of_nan = isinstance(hit, Map) and hit.fn == "or" and _is_nan_of(hit.args[1], x)
    return Place(extreme, far) if of_nan or (hit is equal and not DTYPES[tensor_type(x).dtype].is_float) else None


def _is_nan_of(op: Op, x: Op) -> bool:
    return isinstance(op, Map) and op.fn == "isnan" and op.args[0] is x


def through_moves(op: Op) -> Op:
    """``op`` without broadcasts and dtype changes around it."""
    while isinstance(op, Expand | Convert) or (isinstance(op, Reshape) and is_thin(op)):
        op = op.x  # type: ignore[attr-defined]
    return op


def through_casts(op: Op) -> Op:
    """``op`` without the changes from one floating-point dtype to another around it."""
    while isinstance(op, Convert) and DTYPES[op.dtype].is_float and DTYPES[tensor_type(op.x).dtype].is_float:
        op = op.x
    return op


def unwidened(op: Op) -> Op:
    """``op`` without the changes of dtype that round nothing: a value less the maximum of its roundings may be large."""
    while isinstance(op, Convert) and DTYPES[op.dtype].is_float and (have := DTYPES[tensor_type(op.x).dtype]).is_float:
        if have.rounding < DTYPES[op.dtype].rounding or have.largest > DTYPES[op.dtype].largest:
            return op
        op = op.x
    return op


def match_exponential(op: Op) -> Softmax | None:
    """``op`` as ``exp(s - max(s))`` with the maximum taken along one axis."""
    op = through_casts(op)
    if not isinstance(op, Map) or op.fn not in ("exp", "exp2"):
        return None
    shifted = through_casts(op.args[0])
    if not isinstance(shifted, Map) or shifted.fn != "sub":
        return None
    s, m = shifted.args[0], through_moves(shifted.args[1])
    if isinstance(m, Fold) and m.fn == "max" and len(m.axes) == 1 and unwidened(m.x) is unwidened(s):
        return Softmax(s, op, m, m.axes[0])
    return None


@dataclass(frozen=True, eq=False)
class Weights:
    """An operand of a contraction that is ``e``, maybe divided by (``divisor``) or times (``factor``) a row value."""

    softmax: Softmax
    divisor: Op | None = None
    factor: Op | None = None


def match_weights(op: Op) -> Weights | None:
    """``op`` as exponentials, normalised or not: ``e``, ``e / r`` or ``e * r`` with ``r`` constant along the axis and made of
    the sum of exponentials.  Any other number may be 0 or infinite, where 0 / 0 is NaN and a sum of it no quotient of sums."""
    op = through_casts(op)
    found = match_exponential(op)
    if found:
        return Weights(found)
    if not isinstance(op, Map) or op.fn not in ("div", "mul"):
        return None
    for e, r in ((op.args[0], op.args[1]), (op.args[1], op.args[0])):
        found = match_exponential(e)
        if found and _constant_along(r, found.axis) and _is_of_sums(r, found):
            return Weights(found, divisor=r) if op.fn == "div" else Weights(found, factor=r)
        if op.fn == "div":
            break
    return None


factors = Rules()
"""Weights of a softmax as exponentials times one quotient for each row.  The sum of exponentials, which it is of, is 1 at the
least, so that nothing overflows."""


@factors.on(Map)
def factor_of_weights(op: Map) -> Op | None:
    total = through_moves(op.args[1]) if op.fn == "div" else None
    found = match_exponential(op.args[0]) if isinstance(total, Fold) and isinstance(op.args[1], Expand) else None
    if found is None or total.fn != "sum" or total.axes != (found.axis,) or through_casts(total.x) is not found.e:  # type: ignore
        return None
    one = Map("div", (Literal(1.0, tensor_type(total).dtype), total), loc=op.loc)  # type: ignore[arg-type]
    return Map("mul", (op.args[0], _in_place_of(op.args[1], total, one)), loc=op.loc)  # type: ignore[arg-type]


def _in_place_of(moved: Op, inner: Op, other: Op) -> Op:
    """The moves ``moved`` of ``inner``, of ``other`` instead."""
    return other if moved is inner else moved.remap(lambda o: _in_place_of(o, inner, other))


def _is_of_sums(op: Op, softmax: Softmax) -> bool:
    """Whether ``op`` is made of the sum of the exponentials, which is 1 at the least or NaN, in ways that keep it above 0: more
    is added that is not negative, it is scaled by a positive number, or divides one."""
    match op:
        case Fold(fn="sum"):
            return op.axes == (softmax.axis,) and through_casts(op.x) is softmax.e
        case Convert() | Expand() | Reshape():
            return _is_of_sums(op.x, softmax)
        case Map(fn="add", args=(a, b)):
            return any(_is_of_sums(x, softmax) and _not_negative(y) for x, y in ((a, b), (b, a)))
        case Map(fn="mul", args=(a, b)):
            return any(_is_of_sums(x, softmax) and _is_positive(y) for x, y in ((a, b), (b, a)))
        case Map(fn="div", args=(a, b)):
            return (_is_positive(a) and _is_of_sums(b, softmax)) or (_is_positive(b) and _is_of_sums(a, softmax))
        case Map(fn="max", args=args):
            return any(_is_of_sums(x, softmax) for x in args)
        case Map(fn="reciprocal", args=(x,)):
            return _is_of_sums(x, softmax)
    return False


def _not_negative(op: Op) -> bool:
    while isinstance(op, Convert | Expand | Reshape):
        op = op.x
    return _is_positive(op) or (isinstance(op, Literal) and op.value == 0) or (isinstance(op, Map) and op.fn in NOT_NEGATIVE)


NOT_NEGATIVE = ("exp", "exp2", "abs", "sigmoid", "sqrt")
"""Functions that give no number below 0."""


def _is_positive(op: Op) -> bool:
    """Whether ``op`` is one positive number."""
    while isinstance(op, Convert | Expand | Reshape):
        op = op.x
    return isinstance(op, Literal) and 0 < op.value < math.inf


def _constant_along(op: Op, axis: int) -> bool:
    """Whether ``op`` is the same at every coordinate of ``axis`` because it is broadcast along it."""
    op = through_casts(op)
    shape = tensor_type(op).shape
    if not shape:
        return True
    if isinstance(op, Expand):
        return axis not in op.dims or tensor_type(op.x).shape[op.dims.index(axis)] == 1
    return shape[axis] == 1


@dataclass(frozen=True, eq=False)
class Attention:
    """A contraction ``out`` of softmax weights with an array, over the softmax's axis.

    ``weights_side`` is which operand of ``out`` the weights are (0 or 1); ``sums`` the sums of ``e`` along the axis.
    """

    out: Contract
    weights: Weights
    weights_side: int
    sums: tuple[Fold, ...]

    def rows(self, scores: Contract, classes: Classes) -> list[AxisClass]:
        """Axes of which a block may have several rows: of ``scores`` the keys are the same for all of them, since the operand
        that has the keys has no such axis.  Others of the result that the values do not have are gone through one by one."""
        free = (self.out.lhs_free, self.out.rhs_free)[self.weights_side]
        seen = classes.of_operand(self.out, self.weights_side)
        keys = seen[(self.out.lhs_axes, self.out.rhs_axes)[self.weights_side][0]]
        sides = [[classes.of_operand(scores, n)[i] for i in free] for n, free in enumerate((scores.lhs_free, scores.rhs_free))]
        rows = next((other for one, other in (sides, sides[::-1]) if keys in one), [])
        return [seen[i] for i in free if seen[i] in rows]


def match_attention(out: Contract, users: dict[Op, list[Op]]) -> Attention | None:
    """``out`` as an attention contraction, if one of its operands is softmax weights along the contracted axis."""
    if len(out.lhs_axes) != 1:
        return None
    for side, operand, axis in ((0, out.lhs, out.lhs_axes[0]), (1, out.rhs, out.rhs_axes[0])):
        found = match_weights(operand)
        if found and found.softmax.axis == axis:
            return Attention(out, found, side, sums_of(found.softmax, users))
    return None


def sums_of(softmax: Softmax, users: dict[Op, list[Op]]) -> tuple[Fold, ...]:
    """The sums of ``e`` along its axis, with or without a dtype change between."""
    found: list[Fold] = []
    frontier = [softmax.e]
    while frontier:
        for user in users.get(frontier.pop(), []):
            if isinstance(user, Convert):
                frontier.append(user)
            elif isinstance(user, Fold) and user.fn == "sum" and user.axes == (softmax.axis,):
                found.append(user)
    return tuple(dict.fromkeys(found))
