"""Reductions and products of segments of an array, which offsets mark: sparse rows, bags, groups, sequences of any length.

Offsets [N + 1] are i32 or i64, and segment i is elements ``offsets[i]`` to below ``offsets[i + 1]``.  They ascend from 0 to the
size of the dim; those outside of it are taken for the nearer end, and a segment that ends before it begins is of nothing.
"""

from __future__ import annotations

from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir.tensor import DimSize, SegmentContract, SegmentFold
from portakern.spec import elementwise as ew
from portakern.spec import views
from portakern.spec.contractions import pair, result_dtypes
from portakern.spec.location import located, spec_error
from portakern.spec.reductions import as_number, as_truth
from portakern.spec.traced import Traced, make


def check_offsets(offsets: Traced) -> None:
    """Raises :class:`SpecError` where ``offsets`` cannot mark segments."""
    if not isinstance(offsets, Traced) or offsets.ndim != 1 or offsets.type.dtype not in ("i32", "i64"):
        have = offsets.type if isinstance(offsets, Traced) else repr(offsets)
        raise spec_error(f"offsets are {have}", 'they are one line of i32 or i64: offsets: pk.Tensor["N+1", pk.i32]')
    if offsets.shape[0] == 0:
        raise spec_error("there are no offsets", "the last one ends the last segment: one more is needed than segments")


def _segments(fn: str, x: Traced, offsets: Traced, axis: int) -> Traced:
    check_offsets(offsets)
    return make(SegmentFold(fn, x.op, offsets.op, views.check_axis(axis, x.ndim)))


@located
def segment_sum(x: Traced, offsets: Traced, axis: int = 0) -> Traced:
    """Sums of the segments of ``axis`` that ``offsets`` mark, in the dtype of ``x``: [P, D] and [N + 1] give [N, D].

    Element i along ``axis`` is the sum of elements ``offsets[i]`` to below ``offsets[i + 1]``; 0 for an empty segment.
    Elementwise work and ``pk.take`` before it are in its kernel.  So the product of a sparse matrix in rows (CSR) with a dense
    one is ``pk.segment_sum(values[:, None] * pk.take(b, columns), offsets)``.
    """
    return _segments("sum", as_number(x), offsets, axis)


@located
def segment_prod(x: Traced, offsets: Traced, axis: int = 0) -> Traced:
    """Products of segments, as :func:`segment_sum`; 1 for an empty segment."""
    return _segments("prod", as_number(x), offsets, axis)


@located
def segment_max(x: Traced, offsets: Traced, axis: int = 0) -> Traced:
    """The largest of each segment, as :func:`segment_sum`; NaN if any element is, -inf (the lowest integer) if it is empty."""
    return _segments("max", as_number(x), offsets, axis)


@located
def segment_min(x: Traced, offsets: Traced, axis: int = 0) -> Traced:
    """The smallest of each segment, as :func:`segment_sum`; NaN if any element is, inf (the highest integer) if it is empty."""
    return _segments("min", as_number(x), offsets, axis)


@located
def segment_any(x: Traced, offsets: Traced, axis: int = 0) -> Traced:
    """Whether any element of each segment is true, as :func:`segment_sum`; false if it is empty."""
    return _segments("any", as_truth(x), offsets, axis)


@located
def segment_all(x: Traced, offsets: Traced, axis: int = 0) -> Traced:
    """Whether all elements of each segment are true, as :func:`segment_sum`; true if it is empty."""
    return _segments("all", as_truth(x), offsets, axis)


@located
def segment_mean(x: Traced, offsets: Traced, axis: int = 0) -> Traced:
    """Means of segments, as :func:`segment_sum`; f32 for integers, NaN for an empty segment."""
    x = x if DTYPES[x.type.dtype].is_float else ew.cast(x, "f32")
    total = segment_sum(x, offsets, axis)
    at = views.check_axis(axis, x.ndim)
    size = make(DimSize(x.shape[at], offsets.type.dtype))
    ends = ew.minimum(ew.maximum(offsets, 0), size)
    count = ew.cast(ew.maximum(ends[1:] - ends[:-1], 0), x.type.dtype)
    return ew.divide(total, views.reshape(count, (count.shape[0], *[1] * (x.ndim - 1 - at))))


@located
def grouped_matmul(x: Traced, w: Traced, offsets: Traced, dtype: Any = None, precision: str = "ieee") -> Traced:
    """Rows of ``x`` [P, K], sorted by group, each times the matrix of its group in ``w`` [G, K, N]: [P, N].

    Rows ``offsets[g]`` to below ``offsets[g + 1]`` are of group g, as tokens of an expert are; rows of no group give zeros.
    Offsets that do not ascend mean what they mean sorted.  ``dtype`` and ``precision`` as in :func:`matmul`.
    """
    check_offsets(offsets)
    if x.ndim != 2 or w.ndim != 3 or x.shape[1] != w.shape[1]:
        raise spec_error(f"a grouped product of {x.type} and {w.type}", "x is [P, K] and w [G, K, N], a matrix for each group")
    if offsets.shape[0] != w.shape[0] + 1:
        raise spec_error(f"{offsets.shape[0]} offsets mark the rows of {w.shape[0]} groups",
                         'one more is needed than groups: offsets: pk.Tensor["G+1", pk.i32]')
    x, w = pair(x, w)
    total, result = result_dtypes(x.type.dtype, dtype)
    if total == "f64" or (total == "i32" and DTYPES[x.type.dtype].bits >= 32):
        x, w = ew.cast(x, total), ew.cast(w, total)
    return ew.cast(make(SegmentContract(x.op, w.op, offsets.op, total, precision)), result)
