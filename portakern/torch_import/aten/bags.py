"""What is taken together in segments of a line: rows of a table, bag by bag, and others."""

from __future__ import annotations

import math
from typing import Any

from portakern.ir.size import product
from portakern.spec import elementwise as ew
from portakern.spec import orders, pieces, reductions, segments, views
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, rule, value, wide
from portakern.torch_import.types import Meta

SUM, MEAN, MAX = range(3)
"""PyTorch's modes."""


@rule("aten._embedding_bag", "aten._embedding_bag_forward_only")
def _(call: Call, table: Traced, index: Traced, offsets: Traced, by_frequency: bool = False, mode: int = SUM,
      sparse: bool = False, weights: Traced | None = None, last_offset: bool = False, padding: int = -1
      ) -> tuple[Traced | None, ...]:  # fmt: skip
    """Sums, means or maxima of the rows of each bag; an empty bag gives zeros.  What else there is the backward pass reads: the
    bag of each row, how many rows a bag has, and where in the table its largest elements are."""
    ends = offsets if last_offset else _closed(offsets, index)
    counted = ew.not_equal(index, padding) if padding >= 0 else None
    rows = views.take(table, index, 0)
    made = _taken(rows, weights, counted, ends, mode)
    bag, sizes, places = None, None, None
    if call.used & {1, 3}:
        bag = bag_of_each(ends[: ends.shape[0] - 1], index)
    if 2 in call.used:
        ones = views.ones(index.shape, "i32") if counted is None else ew.cast(counted, "i32")
        sizes = segments.segment_sum(ones, ends)
    if 3 in call.used and mode == MAX:
        assert bag is not None
        at = views.iota(rows.shape, 0, "i32")
        hit = ew.equal(rows, views.take(made, bag, 0))
        hit = hit if counted is None else ew.logical_and(hit, views.expand_dims(counted, 1))
        first = segments.segment_min(ew.where(hit, at, 2**31 - 1), ends)
        places = views.take(index, ew.where(ew.equal(first, 2**31 - 1), -1, first), 0)
    others = (bag, sizes, places)
    return made, *(_of_meta(v, m) if n in call.used else None for n, (v, m) in enumerate(
        zip(others, call.results[1:], strict=True), 1))


def bag_of_each(offsets: Traced, index: Traced) -> Traced:
    """The number of the bag that each row is in."""
    line = views.arange(index.shape[0], offsets.type.dtype)
    return ew.subtract(orders.searchsorted(offsets, line, right=True), 1)


def _of_meta(x: Traced | None, meta: Meta | None) -> Traced | None:
    """``x``; nothing of it where PyTorch has nothing, and zeros where nobody looks at the numbers."""
    if meta is None:
        return None
    return x if x is not None and x.shape == meta.shape else views.zeros(meta.shape, meta.dtype)


def _taken(rows: Traced, weights: Traced | None, counted: Traced | None, ends: Traced, mode: int) -> Traced:
    if mode == MAX:
        return _largest(rows, counted, ends)
    share = _share(rows, weights, counted)
    total = segments.segment_sum(rows if share is None else ew.multiply(rows, views.expand_dims(share, 1)), ends)
    if mode == MEAN:
        each = views.ones(rows.shape[:1], rows.type.dtype) if counted is None else ew.cast(counted, rows.type.dtype)
        total = ew.divide(total, views.expand_dims(ew.maximum(segments.segment_sum(each, ends), 1.0), 1))
    return total


def _closed(offsets: Traced, index: Traced) -> Traced:
    """Where bags begin, and where the last one ends."""
    end = ew.expand(value(index.shape[0], offsets.type.dtype), (1,))
    return pieces.concat([offsets, end], 0)


def _share(rows: Traced, weights: Traced | None, counted: Traced | None) -> Traced | None:
    """What each row is multiplied by: its weight, and 0 if it is padding."""
    if counted is None:
        return weights
    return ew.where(counted, 1.0 if weights is None else weights, value(0.0, rows.type.dtype))


def _largest(rows: Traced, counted: Traced | None, ends: Traced) -> Traced:
    least = value(-math.inf, rows.type.dtype)
    rows = rows if counted is None else ew.where(views.expand_dims(counted, 1), rows, least)
    found = segments.segment_max(rows, ends)
    return ew.where(ew.equal(found, least), value(0.0, rows.type.dtype), found)


# ---- segments of any array --------------------------------------------------------------------------------------------

_OF_NOTHING = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}


@rule("aten.segment_reduce")
def _(call: Call, x: Traced, reduce: str, lengths: Traced | None = None, indices: Any = None, offsets: Traced | None = None,
      axis: int = 0, unsafe: bool = False, initial: float | None = None) -> Traced:  # fmt: skip
    return segmented(x, reduce, lengths, offsets, axis, initial)


def segmented(x: Traced, reduce: str, lengths: Traced | None, offsets: Traced | None, axis: int, initial: float | None
              ) -> Traced:  # fmt: skip
    """Of the dims before ``axis`` each has segments of its own, one after the other; they end where the dim does."""
    x = ew.cast(x, wide(x.type.dtype))
    given = lengths if lengths is not None else offsets
    assert given is not None
    axis %= x.ndim
    rows, size = product(x.shape[:axis]), x.shape[axis]
    given = views.reshape(ew.cast(given, "i64"), (rows, given.shape[-1]))
    begins = reductions.cumsum(given, 1, exclusive=True) if lengths is not None else given[:, :-1]
    count = begins.shape[1]
    begins = ew.add(begins, ew.multiply(views.expand_dims(views.arange(rows, "i64"), 1), value(size, "i64")))
    end = ew.expand(value(rows * size, "i64"), (1,))
    marks = pieces.concat([views.reshape(begins, (product(begins.shape),)), end], 0)
    lines = views.reshape(x, (rows * size, *x.shape[axis + 1 :]))
    made = _reduced(lines, marks, reduce, initial)
    return views.reshape(made, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _reduced(x: Traced, marks: Traced, reduce: str, initial: float | None) -> Traced:
    begin = _OF_NOTHING[reduce] if initial is None else float(initial)
    if reduce in ("max", "min"):
        found = (segments.segment_max if reduce == "max" else segments.segment_min)(x, marks)
        return (ew.maximum if reduce == "max" else ew.minimum)(found, begin)
    if reduce == "prod":
        return ew.multiply(segments.segment_prod(x, marks), begin)
    total = segments.segment_sum(x, marks)
    if reduce == "sum":
        return ew.add(total, begin)
    count = ew.cast(ew.subtract(marks[1:], marks[:-1]), x.type.dtype)
    count = views.reshape(count, (count.shape[0], *[1] * (x.ndim - 1)))
    total = total if initial is None else ew.add(total, begin)
    return ew.where(ew.equal(count, 0.0), begin, ew.divide(total, count))
