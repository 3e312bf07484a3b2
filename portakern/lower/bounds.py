"""How far a masked walk must go: bounds on one coordinate that follow from a mask set to -inf.

``select(j <= i + c, s, -inf)`` makes every exponential beyond ``i + c`` zero, so tiles of ``j`` that lie wholly beyond
it for every ``i`` of the block need not be visited.  So does ``select(j < length[b], s, -inf)``, with a length that is read.
Bounds are found in conjunctions and in both branches' nesting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from portakern.dtypes import DTYPES
from portakern.ir import tensor as tt
from portakern.ir.core import Op
from portakern.ir.size import Size
from portakern.lower.classes import AxisClass, Classes


@dataclass(frozen=True)
class Read:
    """An integer that is computed from arrays, whose dims run along ``axes``."""

    value: Op
    axes: tuple[AxisClass, ...]


@dataclass(frozen=True)
class Affine:
    """``sum of coefficient * coordinate + offset``, coordinates by axis class, plus ``read``, which depends on data."""

    terms: tuple[tuple[AxisClass, int], ...]
    offset: Size
    read: Read | None = None

    def coefficient(self, c: AxisClass) -> int:
        return dict(self.terms).get(c, 0)


@dataclass(frozen=True)
class Bound:
    """``walked <= row + read + offset`` (upper) or ``walked >= row + read + offset`` (lower) for all that is not masked.

    ``row`` is ``None`` where the bound is the same for every row, ``read`` where it depends on no data.  ``test`` is the
    comparison that says so: it is ``holds`` exactly within the bound.
    """

    upper: bool
    row: AxisClass | None
    offset: Size
    test: Op | None = None
    holds: bool = True
    read: Read | None = None


def find_bounds(scores: Op, walked: AxisClass, classes: Classes) -> list[Bound]:
    """Bounds on ``walked`` outside which ``scores`` are -inf."""
    found: list[Bound] = []
    op = scores
    while isinstance(op, tt.Convert | tt.Map):
        if isinstance(op, tt.Convert):
            op = op.x
            continue
        if op.fn != "select":
            break
        if _minus_infinity(op.args[2]):
            found += _from_condition(op.args[0], walked, classes, True)
            op = op.args[1]
        elif _minus_infinity(op.args[1]):
            found += _from_condition(op.args[0], walked, classes, False)
            op = op.args[2]
        else:
            break
    return found


def bounds_of_zeros(op: Op, walked: AxisClass, classes: Classes) -> list[Bound]:
    """Bounds on ``walked`` outside which ``op`` is 0: it was selected so, or is a product with what was.  The exponential of a
    masked score is not meant: in a row whose maximum is NaN, or -inf, it is NaN."""
    match op:
        case tt.Convert():
            return bounds_of_zeros(op.x, walked, classes)
        case tt.Map(fn="mul"):
            return [b for x in dict.fromkeys(op.args) for b in bounds_of_zeros(x, walked, classes)]
        case tt.Map(fn="div" | "neg"):
            return bounds_of_zeros(op.args[0], walked, classes)
        case tt.Map(fn="select"):
            test, yes, no = op.args
            if _is(no, 0.0):
                return [*_from_condition(test, walked, classes, True), *bounds_of_zeros(yes, walked, classes)]
            if _is(yes, 0.0):
                return [*_from_condition(test, walked, classes, False), *bounds_of_zeros(no, walked, classes)]
    return []


def tests_of(bound: Bound, walked: AxisClass, program: tt.TensorProgram, classes: Classes) -> dict[Op, bool]:
    """The comparisons of ``program`` that say what ``bound`` does, and what they are within it."""
    return {op: holds for op in program.body.ops if isinstance(op, tt.Map) and op.fn in _FLIPPED for holds in (True, False)
            if any(alike(bound, x) for x in _from_condition(op, walked, classes, holds))}  # fmt: skip


def alike(a: Bound, b: Bound) -> bool:
    """Whether two bounds are the same, whatever says so."""
    return (a.upper, a.row, a.offset, a.read) == (b.upper, b.row, b.offset, b.read)


def _minus_infinity(op: Op) -> bool:
    return _is(op, -math.inf)


def _is(op: Op, value: float) -> bool:
    """Whether ``op`` is the number ``value`` everywhere."""
    while isinstance(op, tt.Expand | tt.Convert):
        op = op.x
    return isinstance(op, tt.Literal) and isinstance(op.value, float) and op.value == value


def _from_condition(op: Op, walked: AxisClass, classes: Classes, holds: bool) -> list[Bound]:
    """Bounds that follow from ``op`` being ``holds``."""
    while isinstance(op, tt.Expand):
        op = op.x
    if not isinstance(op, tt.Map):
        return []
    if op.fn == "not":
        return _from_condition(op.args[0], walked, classes, not holds)
    if op.fn == ("and" if holds else "or"):
        return [b for a in op.args for b in _from_condition(a, walked, classes, holds)]
    fn = op.fn if holds else _FLIPPED.get(op.fn, "")
    if fn not in _FLIPPED:
        return []
    left, right = (_affine(a, classes, classes.of_operand(op, i)) for i, a in enumerate(op.args))
    return [replace(b, test=op, holds=holds) for b in _solve(fn, left, right, walked)] if left and right else []


_FLIPPED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def _solve(fn: str, left: Affine, right: Affine, walked: AxisClass) -> list[Bound]:
    """``left fn right`` solved for ``walked``."""
    if fn in ("gt", "ge"):
        return _solve("lt" if fn == "gt" else "le", right, left, walked)
    slack: Size = -1 if fn == "lt" else 0
    delta = right.offset - left.offset + slack  # left terms <= right terms + delta
    net = {c: left.coefficient(c) - right.coefficient(c) for c, _ in (*left.terms, *right.terms)}
    others = {c: -n for c, n in net.items() if c is not walked and n}
    if any(x.read is not None and walked in x.read.axes for x in (left, right)):
        return []
    if net.get(walked) == 1 and (not others or list(others.values()) == [1]) and left.read is None:
        return [Bound(True, next(iter(others), None), delta, read=right.read)]
    if net.get(walked) == -1 and (not others or list(others.values()) == [-1]) and right.read is None:
        return [Bound(False, next(iter(others), None), delta * -1, read=left.read)]
    return []


def _affine(op: Op, classes: Classes, axes: tuple[AxisClass, ...] | None = None) -> Affine | None:
    """``op``, whose dims run along ``axes`` where it is used, as a sum of coordinates, sizes and something that is read."""
    match op:
        case tt.Expand():
            return _affine(op.x, classes, classes.of_operand(op, 0))
        case tt.Convert():
            inner = _affine(op.x, classes, classes.of_operand(op, 0))
            if inner is not None and (inner.read is None or _widens(op)):
                return inner
        case tt.Reshape() if not tt.tensor_type(op.x).shape or classes.of(op):
            return _affine(op.x, classes, classes.of_operand(op, 0))
        case tt.Iota():
            return Affine(((classes.of(op)[op.axis], 1),), 0)
        case tt.DimSize():
            return Affine((), op.size)
        case tt.Literal(value=int() as value) if not isinstance(value, bool):
            return Affine((), value)
        case tt.Map(fn="add" | "sub" as fn):
            parts = [_affine(x, classes, classes.of_operand(op, i)) for i, x in enumerate(op.args)]
            if (total := _sum(fn, *parts)) is not None:
                return total
    if tt.tensor_type(op).dtype not in ("i32", "i64"):
        return None
    return Affine((), 0, Read(op, classes.of(op) if axes is None else axes))


def _widens(op: tt.Convert) -> bool:
    mine, other = DTYPES[op.dtype], DTYPES[tt.tensor_type(op.x).dtype]
    return mine.is_int and other.is_int and mine.bits >= other.bits


def _sum(fn: str, a: Affine | None, b: Affine | None) -> Affine | None:
    """``a`` plus or minus ``b``, where one of them at most is read, and not taken off."""
    if a is None or b is None or (b.read is not None and (a.read is not None or fn == "sub")):
        return None
    sign = 1 if fn == "add" else -1
    terms = dict(a.terms)
    for c, n in b.terms:
        terms[c] = terms.get(c, 0) + sign * n
    return Affine(tuple((c, n) for c, n in terms.items() if n), a.offset + b.offset * sign, a.read or b.read)
