"""Rows of a table taken together, bag by bag: bags are segments of a list of indices."""

from __future__ import annotations

import math

from portakern.spec import elementwise as ew
from portakern.spec import pieces, segments, views
from portakern.spec.traced import Traced
from portakern.torch_import.rules import Call, rule, value
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
