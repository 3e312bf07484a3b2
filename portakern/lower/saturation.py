"""Inputs of 64-bit integers of which only the sense matters, on devices that have no others: limited to 32 bits first.

An index outside of a dim is outside of it wherever it is, and a label is none of the classes.  So an input may be limited to
a range of 32 bits if all that is computed of it is exact inside of two thresholds, and beyond one where the operator's own
number is, until somebody asks no more than that: an index, or a comparison with what lies between them.  The range is the
largest one in which the arithmetic in between (the size is added to an index below 0, say) stays within 32 bits.  It is taken
for granted that the operator's own arithmetic stays within 64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from portakern.dtypes import DTYPES
from portakern.ir.core import Arg, Block, Op
from portakern.ir.functions import COMPARE
from portakern.ir.size import Size
from portakern.ir.tensor import (
    Assemble,
    Concat,
    Convert,
    Cumulate,
    Expand,
    Flip,
    Fold,
    Gather,
    Literal,
    Map,
    PadWith,
    Reshape,
    Scatter,
    SegmentContract,
    SegmentFold,
    Slice,
    TensorProgram,
    TensorType,
    Transpose,
    Windows,
    tensor_type,
)
from portakern.lower.small_integers import FITS, Range, Ranges, fits

LIMITS: tuple[Range, ...] = (FITS, *((-(2**bits), 2**bits) for bits in (30, 28, 24)))
"""Ranges that numbers are limited to, the first one where it does."""


@dataclass(frozen=True)
class Trust:
    """Numbers between ``low`` and ``high`` are the operator's own.  Where it has one that is not between them, so is ours, on
    the same side."""

    low: float
    high: float

    @property
    def whole(self) -> bool:
        return self.low == -inf and self.high == inf

    def covers(self, r: Range) -> bool:
        """Whether comparisons with numbers of ``r`` are the operator's."""
        return self.low < r[0] and r[1] < self.high

    def both(self, other: Trust) -> Trust:
        return Trust(max(self.low, other.low), min(self.high, other.high))


WHOLE = Trust(-inf, inf)


class _Lost(Exception):
    """Something asks for more of a number than its sense."""


def limited(program: TensorProgram) -> TensorProgram:
    """``program`` with its inputs of i64, and what is i64 of floats, limited to 32 bits where that changes no result; others
    stay as they are."""
    known = {name: (low, high) for name, low, high in program.ranges}
    passed = 0
    while passed < len(sources := _sources(program)):
        source = sources[passed]
        told = known.get(source.name) if isinstance(source, Arg) else None
        limits = told if fits(told) else next((r for r in LIMITS if _harmless(program, source, r)), None)
        if limits is not None:
            program = _with(program, source, limits)
        passed += limits is None or isinstance(source, Arg)
    return program


def _sources(program: TensorProgram) -> list[Op]:
    """Where i64 come from of which nothing is known."""
    args = [a for a in program.args if tensor_type(a).dtype == "i64" and a.name not in program.scalars]
    return [*args, *(op for op in program.body.ops if isinstance(op, Convert) and op.dtype == "i64"
                     and DTYPES[tensor_type(op.x).dtype].is_float)]  # fmt: skip


def _with(program: TensorProgram, source: Op, limits: Range) -> TensorProgram:
    """``program`` with ``source`` limited: a float before it is converted."""
    x = source.x if isinstance(source, Convert) else source
    dtype = tensor_type(x).dtype
    number = float if DTYPES[dtype].is_float else int
    low, high = (Literal(number(n), dtype) for n in limits)
    above = Map("max", (x, low))
    inside = Map("min", (above, high))
    small = Convert(inside, "i32", loc=source.loc)
    made = [low, high, above, inside, small, Convert(small, "i64", loc=source.loc)]
    new: dict[Op, Op] = {source: made[-1]}
    ops: list[Op] = made if isinstance(source, Arg) else []
    for op in program.body.ops:
        if op is source:
            ops += made
        else:
            new[op] = op.remap(lambda o: new.get(o, o))
            ops.append(new[op])
    return replace(program, body=Block(program.body.args, tuple(ops)))


def _harmless(program: TensorProgram, source: Op, limits: Range) -> bool:
    """Whether results stay what they are if ``source`` is limited to ``limits``, and what is computed of it fits into 32
    bits."""
    if isinstance(source, Convert) and limits == FITS:  # which no float ends at
        return False
    trust = {source: Trust(*limits)}
    ranges = Ranges({source: limits})
    try:
        for op in program.body.ops:
            if not any(o in trust for o in op.operands) and not any(_reads(r, trust) for r in op.regions):
                continue
            found = _trusted(op, trust, ranges)
            if not found.whole:
                trust[op] = found
            if isinstance(op.type, TensorType) and op.type.dtype == "i64" and not fits(ranges.of(op)):
                return False
    except _Lost:
        return False
    return True


def _reads(region: Block, trust: dict[Op, Trust]) -> bool:
    return any(o in trust for op in region.walk() for o in op.operands)


def _trusted(op: Op, trust: dict[Op, Trust], ranges: Ranges) -> Trust:
    """What is known of the numbers of ``op``; raises :class:`_Lost` where they may be others than the operator's."""

    def of(x: Op) -> Trust:
        return trust.get(x, WHOLE)

    match op:
        case Expand() | Reshape() | Transpose() | Slice() | Flip() | Windows() | PadWith():
            return of(op.x)
        case Fold(fn="max" | "min") | Cumulate(fn="max" | "min"):
            return of(op.x)
        case Concat() | Assemble():
            found = WHOLE
            for part in op.parts:
                found = found.both(of(part))
            return found
        case Map():
            return _mapped(op, of, ranges)
        case Gather():
            _index(of(op.indices), tensor_type(op.x).shape[op.axis])
            return of(op.x)
        case Scatter() if of(op.x).whole and of(op.updates).whole:
            _index(of(op.indices), tensor_type(op.x).shape[op.axis])
            return WHOLE
        case SegmentFold() if of(op.x).whole:
            _index(of(op.offsets), tensor_type(op.x).shape[op.axis] + 1)
            return WHOLE
        case SegmentContract() if of(op.lhs).whole and of(op.rhs).whole:
            _index(of(op.groups), tensor_type(op.rhs if op.by_rows else op.lhs).shape[0] + 1)
            return WHOLE
    raise _Lost


def _index(trust: Trust, size: Size) -> None:
    """Raises :class:`_Lost` where an index outside of a dim could be taken for one inside.  An open dim has fewer elements than
    32 bits can count: no array of a device without longer integers has more."""
    if not trust.whole and not (trust.low < 0 and (size if isinstance(size, int) else FITS[1]) <= trust.high):
        raise _Lost


def _mapped(op: Map, of: Callable[[Op], Trust], ranges: Ranges) -> Trust:
    if op.fn == "select":
        if not of(op.args[0]).whole:
            raise _Lost
        return of(op.args[1]).both(of(op.args[2]))
    if op.fn == "neg":
        trust = of(op.args[0])
        return Trust(-trust.high, -trust.low)
    if len(op.args) != 2:
        raise _Lost
    x, y = op.args
    if op.fn == "sub" and of(x).whole and (known := ranges.of(x)) is not None:
        return Trust(known[1] - of(y).high, known[0] - of(y).low)
    if not of(y).whole and of(x).whole and op.fn in _TURNED:
        return _mapped(replace(op, fn=_TURNED[op.fn], args=(y, x)), of, ranges)
    known = ranges.of(y)
    if not of(y).whole or known is None:
        raise _Lost
    if op.fn in COMPARE:
        if not of(x).covers(known):
            raise _Lost
        return WHOLE
    found = _OF[op.fn](of(x), known) if op.fn in _OF else None
    if found is None:
        raise _Lost
    return found


_TURNED = {"add": "add", "mul": "mul", "max": "max", "min": "min", "eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge",
           "ge": "le"}  # fmt: skip
"""The function of the operands in the other order."""


def _times(t: Trust, y: Range) -> Trust | None:
    return Trust(t.low * y[0], t.high * y[0]) if y[0] > 0 and t.low <= 0 <= t.high else None


def _over(t: Trust, y: Range) -> Trust | None:
    if not (y[0] > 0 and t.low <= 0 <= t.high):
        return None
    return Trust(*(n if abs(n) == inf else n // y[1] for n in (t.low, t.high)))


_OF: dict[str, Callable[[Trust, Range], Trust | None]] = {
    "add": lambda t, y: Trust(t.low + y[1], t.high + y[0]),
    "sub": lambda t, y: Trust(t.low - y[0], t.high - y[1]),
    "mul": _times,
    "floordiv": _over,
    "max": lambda t, y: Trust(-inf if t.low <= y[0] else t.low, t.high),
    "min": lambda t, y: Trust(t.low, inf if y[1] <= t.high else t.high),
}
"""Functions of a number that is trusted and one that is known to be in a range."""
