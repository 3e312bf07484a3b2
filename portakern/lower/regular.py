"""Places that follow from coordinates alone, where they make up a few runs: parts of an array one after the other, no gather.

PyTorch's export writes a roll as an index of ``(i + shift) mod n``, for one.  Where loads pick single elements, they compute
such a place as they go; a language that looks indices up in a memory of their own would have to be given them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portakern.ir.core import Arg, Op
from portakern.ir.oracle import apply
from portakern.ir.rewrite import Rules
from portakern.ir.size import product
from portakern.ir.tensor import (
    Concat,
    Convert,
    DimSize,
    Expand,
    Flip,
    Gather,
    Iota,
    Literal,
    Map,
    Reshape,
    Slice,
    TensorType,
    tensor_type,
)

rules = Rules()

RUNS = 4
"""Parts that an array is made of at most: each is copied by itself."""

_LONGEST = 1 << 16

_KNOWN = (Iota, Literal, DimSize, Map, Convert, Expand, Reshape, Slice)


@rules.on(Gather)
def in_runs(op: Gather) -> Op | None:
    size, places = tensor_type(op.x).shape[op.axis], tensor_type(op.indices)
    if op.zipped or places.rank != 1 or not isinstance(size, int) or isinstance(op.indices, Arg):
        return None
    found = _numbers(op.indices, {})
    if found is None or not found.size or found.min() < 0 or found.max() >= size:
        return None
    runs = _runs([int(n) for n in found])
    if len(runs) > RUNS:
        return None
    parts = [_part(op, first, step, count, size) for first, step, count in runs]
    return parts[0] if len(parts) == 1 else Concat(tuple(parts), op.axis, loc=op.loc)


def _numbers(op: Op, known: dict[Op, np.ndarray | None]) -> np.ndarray | None:
    """What an array of integers holds that follows from coordinates alone."""
    if op not in known:
        known[op] = None
        of = op.type
        if isinstance(op, _KNOWN) and isinstance(of, TensorType) and isinstance(n := product(of.shape), int) and n <= _LONGEST:
            values = [_numbers(x, known) for x in op.operands]
            if all(v is not None for v in values):
                with np.errstate(all="ignore"):
                    known[op] = np.asarray(apply(op, values))
    return known[op]


def _runs(places: Sequence[int]) -> list[tuple[int, int, int]]:
    """The first place, the step and the number of each run of ``places``: neighbours are as far apart as the first two."""
    found: list[tuple[int, int, int]] = []
    at = 0
    while at < len(places):
        step = places[at + 1] - places[at] if at + 1 < len(places) else 1
        end = at + 1
        while step and end < len(places) and places[end] - places[end - 1] == step:
            end += 1
        if end == at + 2 and abs(step) != 1:
            end = at + 1  # two elements are a run of any step: the second may begin a longer one
        found.append((places[at], step if end > at + 1 else 1, end - at))
        at = end
    return found


def _part(op: Gather, first: int, step: int, count: int, size: int) -> Op:
    """``count`` elements from ``first`` on, ``step`` apart (below 0: backwards)."""
    if (first, step, count) == (0, 1, size):
        return op.x
    low = first if step > 0 else first + step * (count - 1)
    shape = tensor_type(op.x).shape
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[op.axis], stops[op.axis], steps[op.axis] = low, low + abs(step) * (count - 1) + 1, abs(step)
    part = Slice(op.x, tuple(starts), tuple(stops), tuple(steps), loc=op.loc)
    return Flip(part, (op.axis,), loc=op.loc) if step < 0 else part
