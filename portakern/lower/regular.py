"""Places that follow from coordinates alone, where they make up a few runs: parts of an array one after the other, no gather.

PyTorch's export writes a roll as an index of ``(i + shift) mod n``, for one.  Where loads pick single elements, they compute
such a place as they go; a language that looks indices up in a memory of their own would have to be given them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from portakern.ir.core import Arg, Op
from portakern.ir.oracle import apply
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, product
from portakern.ir.tensor import (
    Assemble,
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


# ---- taps of windows ---------------------------------------------------------------------------------------------------------

TAPS = 64
"""Elements of a dim at which an array is taken apart at most."""


@rules.on(Gather)
def tap_by_tap(op: Gather) -> Op | None:
    """An array of pieces for each element of one other dim, as the gradient of windows has it: at tap k element i is picked
    from a place that i and k make up, or lies outside."""
    shape = tensor_type(op).shape
    if not op.zipped or isinstance(op.indices, Arg) or not isinstance(shape[op.axis], int):
        return None
    along = {op.axis, *_dims_of(op.indices, {})}
    taps = along - {op.axis}
    if len(taps) != 1 or not isinstance(count := shape[tap := taps.pop()], int) or count > TAPS:
        return None
    places = _numbers(_restricted(op.indices, along), {})
    if places is None:
        return None
    by_tap = np.moveaxis(places, (tap, op.axis), (0, 1)).reshape(count, -1)
    parts = [_of_tap(op, tap, k, [int(p) for p in line]) for k, line in enumerate(by_tap)]
    return None if None in parts else Concat(tuple(p for p in parts if p is not None), tap, loc=op.loc)


def _dims_of(op: Op, known: dict[Op, set[int]]) -> set[int]:
    """The dims along which an array of integers may change; all where that is not known."""
    if op not in known:
        of = tensor_type(op)
        match op:
            case Iota(axis=axis):
                known[op] = {axis}
            case Literal() | DimSize():
                known[op] = set()
            case Map() | Convert():
                known[op] = {d for x in op.operands for d in _dims_of(x, known)}
            case Expand(x=x, dims=dims):
                known[op] = {dims[d] for d in _dims_of(x, known)}
            case _:
                known[op] = set(range(of.rank))
    return known[op]


def _restricted(op: Op, along: set[int]) -> Op:
    """``op`` at the first element of the dims that are not ``along``."""
    match op:
        case Iota(shape=shape):
            return replace(op, shape=_only(shape, along))
        case Map() | Convert():
            return op.remap(lambda x: _restricted(x, along))
        case Expand(x=x, shape=shape, dims=dims):
            inside = {n for n, d in enumerate(dims) if d in along}
            return replace(op, x=_restricted(x, inside), shape=_only(shape, along))
    return op


def _only(shape: Sequence[Size], along: set[int]) -> tuple[Size, ...]:
    return tuple(n if d in along else 1 for d, n in enumerate(shape))


def _of_tap(op: Gather, tap: int, number: int, places: Sequence[int]) -> Op | None:
    """What is picked at element ``number`` of dim ``tap``, where those inside of the array are one run, equally far apart."""
    of, shape = tensor_type(op.x), tensor_type(op).shape
    size, whole = of.shape[op.axis], _one(shape, tap)
    if not isinstance(size, int):
        return None
    inside = [i for i, p in enumerate(places) if 0 <= p < size]
    if not inside:
        return Expand(Literal(op.fill, of.dtype), whole, ())
    found = [places[i] for i in inside]
    steps = {b - a for a, b in pairwise(inside)} or {1}
    if len(steps) != 1 or found != list(range(found[0], found[0] + len(found))):
        return None
    starts, stops = [0] * len(shape), list(of.shape)
    starts[tap], stops[tap] = number, number + 1
    starts[op.axis], stops[op.axis] = found[0], found[0] + len(found)
    part = Slice(op.x, tuple(starts), tuple(stops), (1,) * len(shape), loc=op.loc)
    offsets = tuple(inside[0] if d == op.axis else 0 for d in range(len(shape)))
    apart = tuple(steps.copy().pop() if d == op.axis else 1 for d in range(len(shape)))
    return Assemble((part,), whole, offsets, apart, op.fill, loc=op.loc)


def _one(shape: Sequence[Size], dim: int) -> tuple[Size, ...]:
    return tuple(1 if d == dim else n for d, n in enumerate(shape))
