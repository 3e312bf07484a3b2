"""Orders of the elements of lines, what is made of them, and elements put where integers say."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.dtypes import DTYPES
from portakern.ir.core import Result
from portakern.ir.size import Size, Sym, product
from portakern.ir.tensor import SCATTER, Scatter, Sort
from portakern.spec import elementwise as ew
from portakern.spec import reductions as red
from portakern.spec import views
from portakern.spec.elementwise import Value
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, as_traced, make, record
from portakern.spec.views import check_axis, check_indices

# ---- sorts ------------------------------------------------------------------------------------------------------------------


@located
def sort(x: Traced, axis: int = -1, descending: bool = False) -> Traced:
    """Sorted along ``axis``, stable; NaN is the largest."""
    return make(Result(record(Sort(x.op, check_axis(axis, x.ndim), descending)), 0))


@located
def argsort(x: Traced, axis: int = -1, descending: bool = False) -> Traced:
    """The i32 indices that sort ``x`` along ``axis``, stable."""
    return make(Result(record(Sort(x.op, check_axis(axis, x.ndim), descending)), 1))


@located
def topk(x: Traced, k: int, axis: int = -1) -> tuple[Traced, Traced]:
    """The ``k`` largest along ``axis``, largest first, and their i32 indices."""
    both = record(Sort(x.op, check_axis(axis, x.ndim), True, _count(x, k, axis, "topk")))
    return make(Result(both, 0)), make(Result(both, 1))


@located
def kthvalue(x: Traced, k: int, axis: int = -1) -> tuple[Traced, Traced]:
    """The ``k``-th smallest element along ``axis`` (the first is the smallest), which is removed, and its i32 index; equal
    elements keep their order."""
    at = check_axis(axis, x.ndim)
    both = record(Sort(x.op, at, False, _count(x, k, axis, "kthvalue")))
    return _element(make(Result(both, 0)), k - 1, at), _element(make(Result(both, 1)), k - 1, at)


@located
def median(x: Traced, axis: int = -1) -> Traced:
    """The middle element along ``axis``, which is removed; for an even number of elements the mean of the two in the middle,
    as in numpy.  NaN if an element is NaN."""
    at = check_axis(axis, x.ndim)
    size = x.shape[at]
    if not isinstance(size, int):
        raise spec_error("the median along an open dim", "build it for given sizes")
    if not size:
        raise spec_error("the median of no elements", "give the dim a size of at least 1")
    ordered = sort(x, at)
    low, high = _element(ordered, (size - 1) // 2, at), _element(ordered, size // 2, at)
    middle = low if size % 2 and DTYPES[x.type.dtype].is_float else low * 0.5 + high * 0.5
    last = _element(ordered, size - 1, at)  # NaN, if any is
    return ew.where(ew.isnan(last), last, middle) if DTYPES[x.type.dtype].is_float else middle


@located
def mode(x: Traced, axis: int = -1) -> Traced:
    """The element that appears most often along ``axis``, which is removed; the smallest of equally frequent ones.  Each NaN
    counts separately."""
    at = check_axis(axis, x.ndim)
    ordered = sort(x, at)
    length = views.iota(ordered.shape, at) - _begin_of_runs(ordered, at)
    most = views.expand_dims(red.argmax(length, at), at)  # the last element of the first of the longest runs
    return views.squeeze(views.take_along(ordered, most, at), at)


@located
def unique_counts(x: Traced, axis: int = -1) -> tuple[Traced, Traced, Traced]:
    """The different elements along ``axis`` in ascending order, how often each appears (i32), and how many there are (i32, as a
    dim of 1).  Both arrays are as long as ``x``: after the different elements they have 0.  Each NaN counts separately."""
    at = check_axis(axis, x.ndim)
    ordered = sort(x, at)
    place = views.iota(ordered.shape, at)
    number = red.cumsum(ew.cast(ew.equal(place, _begin_of_runs(ordered, at)), "i32"), at) - 1
    values = scatter(views.zeros(x.shape, x.type.dtype), number, ordered, at, "set")
    counts = scatter(views.zeros(x.shape, "i32"), number, views.ones(x.shape, "i32"), at)
    return values, counts, red.max(number, at, keepdims=True) + 1


def _begin_of_runs(ordered: Traced, axis: int) -> Traced:
    """Where the run of equal elements begins that each element of sorted lines stands in."""
    place = views.iota(ordered.shape, axis)
    before = views.take_along(ordered, place - 1, axis)
    new = ew.logical_or(ew.equal(place, 0), ew.not_equal(ordered, before))
    return red.cummax(ew.where(new, place, 0), axis)


def _count(x: Traced, k: int, axis: int, what: str) -> int:
    size = x.shape[check_axis(axis, x.ndim)]
    if isinstance(k, Sym):
        raise spec_error(f"{what} of the open size {k}", "build it for given sizes")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1 or (isinstance(size, int) and k > size):
        raise spec_error(f"{what} of {k!r} among {size} elements", f"k is a number from 1 to {size}")
    return k


def _element(x: Traced, number: int, axis: int) -> Traced:
    """Element ``number`` along ``axis``, which goes away."""
    return views.getitem(x, (*(slice(None) for _ in range(axis)), number))


# ---- places in sorted lines ------------------------------------------------------------------------------------------------


@located
def searchsorted(line: Traced, values: Traced, right: bool = False) -> Traced:
    """How many elements of ``line``, one dim of known size in ascending order, are below each of ``values`` (or not
    above it, with ``right``), as i32."""
    if line.ndim != 1:
        raise spec_error(f"searchsorted in an array of {line.ndim} dims", "give a line of one dim")
    (size,) = line.shape
    if not isinstance(size, int):
        raise spec_error("searchsorted in a line along an open dim", "build it for given sizes")
    found = views.zeros(values.shape, "i32")
    for bit in reversed(range(size.bit_length())):
        there = views.take(line, found + ((1 << bit) - 1))
        before = ew.less_equal(there, values) if right else ew.less(there, values)
        found = ew.where(ew.logical_and(ew.less_equal(found + (1 << bit), size), before), found + (1 << bit), found)
    return found


@located
def histogram(x: Traced, edges: Traced) -> Traced:
    """How many elements of ``x`` lie between two neighbouring ``edges``, which ascend.  The lower edge is in its bin, the
    upper one only in the last bin, as in numpy.  i32, one bin less than edges; NaN is in no bin."""
    bins = edges.shape[0] - 1
    flat = views.reshape(x, -1)
    last = ew.equal(flat, views.broadcast_to(edges[-1:], flat.shape))
    place = ew.where(last, bins - 1, searchsorted(edges, flat, right=True) - 1)
    place = ew.where(ew.isnan(flat), -1, place) if DTYPES[x.type.dtype].is_float else place
    return bincount(place, bins)


@located
def bincount(x: Traced, size: Size, weights: Traced | None = None) -> Traced:
    """How often each of the numbers 0 to ``size`` - 1 appears in ``x``, integers of any shape (i32); with ``weights``, of the
    same shape, the sum of those of its places.  Other numbers are left out."""
    check_indices(x)
    flat = views.reshape(x, -1)
    amounts = views.ones(flat.shape, "i32") if weights is None else views.reshape(weights, -1)
    return scatter(views.zeros((size,), amounts.type.dtype), flat, amounts, 0)


# ---- elements put in place -------------------------------------------------------------------------------------------------


@located
def scatter(x: Traced, indices: Traced, updates: Traced, axis: int, mode: str = "add") -> Traced:
    """``x`` with ``updates`` at ``indices`` along ``axis``.  ``mode`` is set (the last of several counts), add, mul, max or
    min.  Indices outside are dropped."""
    if mode not in SCATTER:
        raise spec_error(f"a scatter with mode {mode!r}", f"modes are {', '.join(SCATTER)}")
    return make(Scatter(x.op, indices.op, as_traced(updates, x.type.dtype).op, check_axis(axis, x.ndim), mode))


@located
def index_put(x: Traced, indices: Sequence[Traced], values: Value, accumulate: bool = False) -> Traced:
    """``x`` with ``values`` at ``indices``, an array of integers for each of its first dims, which broadcast (PyTorch's
    ``index_put``); with ``accumulate`` they are added there.  Of several values for one place the last one is set,
    or all are added.  Indices outside are dropped."""
    arrays = [indices] if isinstance(indices, Traced) else list(indices)
    if not arrays or len(arrays) > x.ndim:
        raise spec_error(f"{len(arrays)} arrays of indices for {x.ndim} dims", "give one for each of the first dims")
    for i in arrays:
        check_indices(i)
    leading, rest = x.shape[: len(arrays)], x.shape[len(arrays) :]
    # Places in one dim fit where its indices do; those in several are counted, and not every device has i64.
    kind = "i32" if len(arrays) == 1 and arrays[0].type.dtype in ("i32", "i16", "i8", "u16", "u8") else "i64"
    place, inside = ew.cast(arrays[0], kind), None
    for number, (i, size) in enumerate(zip(arrays, leading, strict=True)):
        i = ew.cast(i, kind)
        place = place * ew.size(size, kind) + i if number else i
        here = ew.logical_and(ew.greater_equal(i, 0), ew.less(i, ew.size(size, kind)))
        inside = here if inside is None else ew.logical_and(inside, here)
    place = ew.where(inside, place, -1)  # type: ignore[arg-type]
    count, width = product(place.shape), product(rest)
    given = views.broadcast_to(as_traced(values, x.type.dtype), (*place.shape, *rest))
    rows = views.broadcast_to(views.reshape(place, count, 1), (count, width))
    table = views.reshape(x, product(leading), width)
    return views.reshape(scatter(table, rows, views.reshape(given, count, width), 0, "add" if accumulate else "set"), *x.shape)
