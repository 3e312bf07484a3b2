"""What is taken together in segments of a line: rows of a table, bag by bag, and others."""

from __future__ import annotations

import math
from typing import Any

from portakern.ir.size import product
from portakern.spec import elementwise as ew
from portakern.spec import pieces, reductions, segments, views
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, rule, value, wide
from portakern.torch_import.types import NotImported

SUM, MEAN, MAX = range(3)
"""PyTorch's modes."""


@rule("aten._embedding_bag", "aten._embedding_bag_forward_only")
def _(call: Call, table: Traced, index: Traced, offsets: Traced, by_frequency: bool = False, mode: int = SUM,
      sparse: bool = False, weights: Traced | None = None, last_offset: bool = False, padding: int = -1
      ) -> tuple[Traced, None, None, None]:  # fmt: skip
    """Sums, means or maxima of the rows of each bag; an empty bag gives zeros.  What the backward pass alone reads is no
    result here."""
    if call.used - {0}:
        raise NotImported("the places of a bag's rows, which its backward pass reads")
    ends = offsets if last_offset else _closed(offsets, index)
    rows = views.take(table, index, 0)
    counted = ew.not_equal(index, padding) if padding >= 0 else None
    if mode == MAX:
        return _largest(rows, counted, ends), None, None, None
    share = _share(rows, weights, counted)
    total = segments.segment_sum(rows if share is None else ew.multiply(rows, views.expand_dims(share, 1)), ends)
    if mode == MEAN:
        each = views.ones(index.shape, rows.type.dtype) if counted is None else ew.cast(counted, rows.type.dtype)
        total = ew.divide(total, views.expand_dims(ew.maximum(segments.segment_sum(each, ends), 1.0), 1))
    return total, None, None, None


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
    """Of the dims before ``axis`` each has segments of its own, one after the other; they end where the dim does."""
    x = ew.cast(x, wide(x.type.dtype))
    given = lengths if lengths is not None else offsets
    assert given is not None
    axis %= x.ndim
    rows, size = product(x.shape[:axis]), x.shape[axis]
    given = views.reshape(ew.cast(given, "i64"), (rows, given.shape[-1]))
    begins = reductions.cumsum(given, 1, exclusive=True) if lengths is not None else given[:, :-1]
    begins = ew.add(begins, ew.multiply(views.expand_dims(views.arange(rows, "i64"), 1), value(size, "i64")))
    end = ew.expand(value(rows * size, "i64"), (1,))
    marks = pieces.concat([views.reshape(begins, (product(begins.shape),)), end], 0)
    lines = views.reshape(x, (rows * size, *x.shape[axis + 1 :]))
    made = _reduced(lines, marks, reduce, initial)
    return views.reshape(made, call.shape)


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
