"""Places in a line that is known to ascend, where loads pick no single elements: all elements below a value are counted.

A search by halves (:func:`portakern.spec.orders.searchsorted`) looks an element up for each bit of the place.  Where each of
these compares the whole line with the place, one comparison of the line with the value says as much.  Of a line that does not
ascend both give other numbers, so one that comes from outside is searched as it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from portakern.dtypes import DTYPES
from portakern.ir.core import Op, Result
from portakern.ir.rewrite import Rules
from portakern.ir.tensor import (
    Convert,
    Cumulate,
    Expand,
    Fold,
    Gather,
    Iota,
    Map,
    Reshape,
    Slice,
    Sort,
    tensor_type,
)
from portakern.lower.lookups import number

rules = Rules()


@dataclass(frozen=True)
class _Step:
    """A bit of a search: ``found`` is the place by the bits above it."""

    found: Op
    line: Op
    values: Op
    fn: str


@rules.on(Map)
def counted(op: Map) -> Op | None:
    steps: list[_Step] = []
    at: Op = op
    while (step := _step(at, 1 << len(steps))) is not None:
        steps.append(step)
        at = step.found
    if not steps or number(at) != 0 or len({(s.line, s.values, s.fn) for s in steps}) != 1:
        return None
    line, values = steps[0].line, steps[0].values
    (size,) = tensor_type(line).shape
    if not isinstance(size, int) or size.bit_length() != len(steps) or not _ascends(line):
        return None
    shape = (*tensor_type(values).shape, size)
    last = len(shape) - 1
    below = Map(steps[0].fn, (Expand(line, shape, (last,)), Expand(values, shape, tuple(range(last)))), loc=op.loc)
    return Fold("sum", Convert(below, "i32"), (last,), loc=op.loc)


def _step(op: Op, by: int) -> _Step | None:
    """The step that ``op`` is, whose bit is ``by``: it goes on where the element there is below the value."""
    match op:
        case Map(fn="select", args=(Map(fn="and", args=(Map(fn="le") as inside, Map() as below)), further, found)):
            if below.fn not in ("lt", "le"):
                return None
            there, values = below.args
            if not isinstance(there, Gather) or there.zipped or tensor_type(there.x).rank != 1:
                return None
            (size,) = tensor_type(there.x).shape
            fits = inside.args[0] is further and number(inside.args[1]) == size
            right = _further(further, found, by) and _further(there.indices, found, by - 1)
            return _Step(found, there.x, values, below.fn) if fits and right else None
    return None


def _further(op: Op, found: Op, by: int) -> bool:
    """Whether ``op`` is ``found`` and ``by`` more."""
    if op is found:
        return by == 0
    at, start = number(op), number(found)
    if at is not None and start is not None:
        return at == start + by
    return isinstance(op, Map) and op.fn == "add" and op.args[0] is found and number(op.args[1]) == by


def _ascends(op: Op) -> bool:
    """Whether every element of a line is at least the one before: rounding keeps the order."""
    match op:
        case Iota():
            return True
        case Convert(x=x, dtype=dtype):
            return _ascends(x) and DTYPES[dtype].bits >= min(DTYPES[tensor_type(x).dtype].bits, 32)
        case Slice(x=x) | Reshape(x=x):
            return tensor_type(x).rank == 1 and _ascends(x)
        case Map(fn="add" | "sub" | "max" | "min", args=(x, y)):
            return _ascends(x) and number(y) is not None
        case Map(fn="mul" | "div", args=(x, y)):
            factor = number(y)
            return _ascends(x) and factor is not None and 0 < factor < inf
        case Cumulate(fn="max", reverse=False):
            return True
        case Result(source=Sort(descending=False)):
            return op.index == 0
    return False
