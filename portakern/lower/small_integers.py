"""Integers of 64 bits that fit into 32, on devices that have no others: places, counts, and what is computed of them.

An array of i64 whose numbers are those of an i32 is written as the i32 and a conversion.  The rules move conversions towards
the end, over whatever gives numbers that are known to fit, until somebody takes 32 bits as well: an index, a comparison, a
float.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from math import isfinite, prod

from portakern.dtypes import DTYPES
from portakern.ir.core import Op, Result
from portakern.ir.functions import COMPARE
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size
from portakern.ir.tensor import (
    ArgFold,
    Assemble,
    Concat,
    Convert,
    Cumulate,
    DimSize,
    Expand,
    Flip,
    Fold,
    Gather,
    Iota,
    Literal,
    Map,
    PadWith,
    Reshape,
    Scatter,
    SegmentContract,
    SegmentFold,
    Slice,
    Sort,
    Transpose,
    Windows,
    tensor_type,
)

Range = tuple[int, int]
FITS: Range = (-(2**31), 2**31 - 1)

rules = Rules()


def fits(r: Range | None) -> bool:
    return r is not None and FITS[0] <= r[0] and r[1] <= FITS[1]


def _wide(op: Op) -> bool:
    return tensor_type(op).dtype == "i64"


def small(op: Op) -> Op | None:
    """The i32 with the numbers of ``op``, an i64; ``None`` where that is not known."""
    if isinstance(op, Literal):
        return Literal(int(op.value), "i32") if fits(_one(op.value)) else None
    if isinstance(op, DimSize):
        return DimSize(op.size, "i32") if isinstance(op.size, int) and fits((op.size, op.size)) else None
    if isinstance(op, Convert) and _wide(op) and tensor_type(op.x).dtype == "i32":
        return op.x
    return None


def _widened(op: Op, x: Op) -> Op:
    """``op``, which ``x`` is in 32 bits."""
    return Convert(x, "i64", loc=op.loc)


def _all_small(ops: tuple[Op, ...]) -> tuple[Op, ...] | None:
    found = tuple(small(x) for x in ops)
    return None if any(x is None for x in found) else found  # type: ignore[return-value]


# ---- what fits --------------------------------------------------------------------------------------------------------


@rules.on(Iota)
def places(op: Iota) -> Op | None:
    return _widened(op, replace(op, dtype="i32")) if op.dtype == "i64" and _static(op.shape[op.axis]) else None


@rules.on(ArgFold)
def places_of_extremes(op: ArgFold) -> Op | None:
    extent = tensor_type(op.x).shape[op.axis]
    return _widened(op, replace(op, dtype="i32")) if op.dtype == "i64" and _static(extent) else None


@rules.on(Expand, Reshape, Transpose, Slice, Flip)
def moved(op: Expand | Reshape | Transpose | Slice | Flip) -> Op | None:
    x = small(op.x) if _wide(op) else None
    return _widened(op, replace(op, x=x)) if x is not None else None


@rules.on(PadWith)
def padded(op: PadWith) -> Op | None:
    x = small(op.x) if _wide(op) and fits(_one(op.value)) else None
    return _widened(op, replace(op, x=x)) if x is not None else None


@rules.on(Windows)
def windowed(op: Windows) -> Op | None:
    x = small(op.x) if _wide(op) and fits(_one(op.fill)) else None
    return _widened(op, replace(op, x=x)) if x is not None else None


@rules.on(Concat, Assemble)
def joined(op: Concat | Assemble) -> Op | None:
    filled = isinstance(op, Assemble) and op.fill is not None
    parts = _all_small(op.parts) if _wide(op) and (not filled or fits(_one(op.fill))) else None  # type: ignore[union-attr]
    return _widened(op, replace(op, parts=parts)) if parts is not None else None


@rules.on(Map)
def computed(op: Map) -> Op | None:
    """A comparison of what fits, or a function whose result does, too."""
    if op.fn in COMPARE:
        args = _all_small(op.args) if _wide(op.args[0]) else None
        return replace(op, args=args) if args is not None else None
    if not _wide(op) or op.fn not in _OF:
        return None
    values = op.args[1:] if op.fn == "select" else op.args
    args = _all_small(values)
    if args is None or not fits(range_of(op)):
        return None
    return _widened(op, replace(op, args=(*op.args[: len(op.args) - len(values)], *args)))


@rules.on(Map)
def decided(op: Map) -> Op | None:
    """Whether an index is below 0, say, where it is known not to be."""
    if op.fn not in _BELOW or not DTYPES[tensor_type(op.args[0]).dtype].is_int:
        return None
    x, y = (range_of(a) for a in op.args)
    found = None if x is None or y is None else _BELOW[op.fn](x, y)
    return None if found is None else Expand(Literal(found, "bool"), tensor_type(op).shape, ())


@rules.on(Map)
def chosen(op: Map) -> Op | None:
    """The one side that is ever taken."""
    test = op.args[0].x if isinstance(op.args[0], Expand) else op.args[0]
    if op.fn != "select" or not isinstance(test, Literal):
        return None
    taken, shape = op.args[1 if test.value else 2], tensor_type(op).shape
    return taken if tensor_type(taken).shape == shape else Expand(taken, shape, ())


@rules.on(Fold)
def summed(op: Fold) -> Op | None:
    x = small(op.x) if _wide(op) and fits(range_of(op)) else None
    return _widened(op, replace(op, x=x)) if x is not None else None


@rules.on(Cumulate)
def running(op: Cumulate) -> Op | None:
    x = small(op.x) if _wide(op) and fits(range_of(op)) else None
    return _widened(op, replace(op, x=x)) if x is not None else None


# ---- who takes 32 bits ------------------------------------------------------------------------------------------------


@rules.on(Convert)
def converted_again(op: Convert) -> Op | None:
    if op.dtype == "i64":
        have = tensor_type(op.x).dtype
        counts = have in ("bool", "i8", "i16", "u8", "u16")
        return _widened(op, Convert(op.x, "i32", loc=op.loc)) if counts else None
    x = small(op.x) if _wide(op.x) and not isinstance(op.x, Literal) else None
    return None if x is None else x if op.dtype == "i32" else Convert(x, op.dtype, loc=op.loc)


@rules.on(Gather)
def picked(op: Gather) -> Op | None:
    at = small(op.indices) if _wide(op.indices) else None
    if at is not None:
        return replace(op, indices=at)
    x = small(op.x) if _wide(op) and fits(_one(op.fill)) else None
    return _widened(op, replace(op, x=x)) if x is not None else None


@rules.on(Scatter)
def put(op: Scatter) -> Op | None:
    at = small(op.indices) if _wide(op.indices) else None
    if at is not None:
        return replace(op, indices=at)
    both = _all_small((op.x, op.updates)) if _wide(op) and fits(range_of(op)) else None
    return _widened(op, replace(op, x=both[0], updates=both[1])) if both is not None else None


@rules.on(SegmentFold)
def in_segments(op: SegmentFold) -> Op | None:
    at = small(op.offsets) if _wide(op.offsets) else None
    if at is not None:
        return replace(op, offsets=at)
    x = small(op.x) if _wide(op) and fits(range_of(op)) else None
    return _widened(op, replace(op, x=x)) if x is not None else None


@rules.on(SegmentContract)
def in_groups(op: SegmentContract) -> Op | None:
    at = small(op.groups) if _wide(op.groups) else None
    return replace(op, groups=at) if at is not None else None


@rules.on(Result)
def sorted_(op: Result) -> Op | None:
    """What is sorted, and the places where it was."""
    sort = op.source
    if not isinstance(sort, Sort) or not _wide(sort.x) or (x := small(sort.x)) is None:
        return None
    new = Result(replace(sort, x=x), op.index)
    return _widened(op, new) if op.index == 0 else new


# ---- ranges -----------------------------------------------------------------------------------------------------------


def range_of(op: Op, known: Mapping[Op, Range] | None = None) -> Range | None:
    """Between which numbers the elements of an array of integers are, where ``known`` are; ``None`` for floats."""
    return Ranges(known).of(op)


DEEPEST = 60
"""Of what so many operations were before nothing is known: Python's stack is no deeper than some hundreds of them."""


class Ranges:
    """Of questions whose operations may be asked for many times."""

    def __init__(self, known: Mapping[Op, Range] | None = None) -> None:
        self.known: dict[int, Range | None] = {id(op): r for op, r in (known or {}).items()}
        self.depth = 0

    def of(self, op: Op) -> Range | None:
        if id(op) not in self.known:
            self.depth += 1
            self.known[id(op)] = self._of(op)
            self.depth -= 1
        return self.known[id(op)]

    def _of(self, op: Op) -> Range | None:
        dtype = DTYPES[tensor_type(op).dtype]
        if not dtype.is_int and dtype.name != "bool":
            return None
        whole, found = _of_dtype(dtype.name), self._found(op) if self.depth <= DEEPEST else None
        return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole  # else it may wrap

    def _found(self, op: Op) -> Range | None:
        match op:
            case Literal():
                return int(op.value), int(op.value)
            case DimSize():
                return (op.size, op.size) if isinstance(op.size, int) else None
            case Iota():
                return (0, max(0, _extent(op.shape[op.axis]) - 1)) if _static(op.shape[op.axis]) else None
            case ArgFold():
                extent = tensor_type(op.x).shape[op.axis]
                return (0, max(0, _extent(extent) - 1)) if _static(extent) else None
            case Convert(x=Map(fn="min") as x) if _is_float(x):
                return _of_limited(x)
            case Convert() | Expand() | Reshape() | Transpose() | Slice() | Flip():
                integers = DTYPES[tensor_type(op.x).dtype].is_int or tensor_type(op.x).dtype == "bool"
                return self.of(op.x) if integers else None
            case PadWith():
                return _either(self.of(op.x), _one(op.value))
            case Gather():
                return _either(self.of(op.x), _one(op.fill))
            case Concat():
                return reduce(_either, map(self.of, op.parts))
            case Fold() | Cumulate() | SegmentFold():
                return self._summed(op)
            case Scatter():
                return self._put(op)
            case Windows():
                return _either(self.of(op.x), _one(op.fill)) if op.reaching else self.of(op.x)
            case Assemble():
                parts = reduce(_either, map(self.of, op.parts))
                return parts if op.fill is None else _either(parts, _one(op.fill))
            case Result(source=Sort() as sort, index=0):
                return self.of(sort.x)
            case Map() if op.fn in _OF:
                args = [self.of(x) for x in (op.args[1:] if op.fn == "select" else op.args)]
                return None if any(r is None for r in args) else _OF[op.fn](*args)
            case _:
                return None

    def _put(self, op: Scatter) -> Range | None:
        x, new, count = self.of(op.x), self.of(op.updates), tensor_type(op.updates).shape[op.axis]
        if op.mode in ("set", "max", "min"):
            return _either(x, new)
        if op.mode != "add" or x is None or new is None or not _static(count):
            return None
        return x[0] + min(0, new[0] * _extent(count)), x[1] + max(0, new[1] * _extent(count))

    def _summed(self, op: Fold | Cumulate | SegmentFold) -> Range | None:
        x, shape = self.of(op.x), tensor_type(op.x).shape
        axes = op.axes if isinstance(op, Fold) else (op.axis,)
        if x is None or not all(_static(shape[a]) for a in axes):
            return None
        count = prod(_extent(shape[a]) for a in axes)
        if op.fn in ("max", "min"):  # of nothing it is a number that 32 bits do not have
            nothing = not count or isinstance(op, SegmentFold) or (isinstance(op, Cumulate) and op.exclusive)
            return None if nothing else x
        if op.fn != "sum":
            return None
        return min(0, x[0] * count), max(0, x[1] * count)


def _is_float(op: Op) -> bool:
    return DTYPES[tensor_type(op).dtype].is_float


def _of_limited(op: Map) -> Range | None:
    """Integers that a float is made to which is limited to numbers; 0 is what TPUs make of NaN."""
    match op:
        case Map(args=(Map(fn="max", args=(_, Literal(value=low))), Literal(value=high))) if isfinite(low) and isfinite(high):
            return min(0, int(low)), max(0, int(high))
    return None


def _of_dtype(name: str) -> Range:
    if name == "bool":
        return 0, 1
    bits = DTYPES[name].bits
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _one(value: float) -> Range:
    return int(value), int(value)


def _static(size: Size) -> bool:
    return isinstance(size, int) and size < FITS[1]


def _extent(size: Size) -> int:
    assert isinstance(size, int)
    return size


def _either(a: Range | None, b: Range | None) -> Range | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _products(a: Range, b: Range) -> Range:
    found = [x * y for x in a for y in b]
    return min(found), max(found)


def _quotients(a: Range, b: Range) -> Range | None:
    return (min(a[0] // b[0], a[0] // b[1]), max(a[1] // b[0], a[1] // b[1])) if b[0] > 0 else None


def _remainders(a: Range, b: Range) -> Range | None:
    return (0, b[1] - 1) if b[0] > 0 else None


def _below(a: Range, b: Range) -> bool | None:
    return True if a[1] < b[0] else False if a[0] >= b[1] else None


_BELOW = {"lt": _below, "gt": lambda a, b: _below(b, a)}
"""What comparisons of numbers in two ranges give, where they all give the same."""


def _of_bits(a: Range, b: Range) -> Range:
    """As many bits as the longer one has."""
    bits = max((n if n >= 0 else ~n).bit_length() for n in (*a, *b))
    return (0 if a[0] >= 0 and b[0] >= 0 else -(2**bits)), 2**bits - 1


_OF = {
    "neg": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (max(0, a[0], -a[1]), max(-a[0], a[1])),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _products,
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "select": _either,
    "floordiv": _quotients,
    "rem": _remainders,
    "and": _of_bits,
    "or": _of_bits,
    "xor": _of_bits,
}
"""Ranges of functions whose value of 32 bits is that of 64 where it fits."""
