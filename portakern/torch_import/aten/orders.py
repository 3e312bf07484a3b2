"""Sorting and what follows from an order."""

from __future__ import annotations

from typing import Any

from portakern.ir.core import Result
from portakern.ir.size import product
from portakern.ir.tensor import Sort
from portakern.spec import elementwise as ew
from portakern.spec import orders, reductions, views
from portakern.spec.traced import Traced, common_dtype, make, record
from portakern.torch_import.aten.views import part
from portakern.torch_import.rules import Call, is_float, number, rule, value


def ordered(x: Traced, dim: int, descending: bool, count: int = 0) -> tuple[Traced, Traced]:
    """Sorted values and their places; of one number itself."""
    if not x.ndim:
        return x, value(0, "i64")
    plain = ew.cast(x, "i32") if x.type.dtype == "bool" else x
    both = record(Sort(plain.op, dim % x.ndim, descending, count))
    return ew.cast(make(Result(both, 0)), x.type.dtype), ew.cast(make(Result(both, 1)), "i64")


@rule("aten.sort.default")
def _(call: Call, x: Traced, dim: int = -1, descending: bool = False) -> tuple[Traced, Traced]:
    return ordered(x, dim, descending)


@rule("aten.sort.stable")
def _(call: Call, x: Traced, stable: Any = None, dim: int = -1, descending: bool = False) -> tuple[Traced, Traced]:
    return ordered(x, dim, descending)


@rule("aten.topk")
def _(call: Call, x: Traced, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Traced, Traced]:
    if k == 0:
        return views.zeros(call.shape, call.dtype), views.zeros(call.shape, "i64")
    return ordered(x, dim, largest, k)


@rule("aten.kthvalue")
def _(call: Call, x: Traced, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Traced, Traced]:
    return _nth(call, x, k - 1, dim)


@rule("aten.median.dim")
def _(call: Call, x: Traced, dim: int = -1, keepdim: bool = False) -> tuple[Traced, Traced]:
    """The lower of the two in the middle; the first NaN, if there is one."""
    if not x.ndim or not is_float(x.type.dtype):
        return _nth(call, x, (number(x.shape[dim], "the median") - 1) // 2 if x.ndim else 0, dim)
    size, count = value(x.shape[dim], "i32"), _numbers(x, dim)
    middle = ew.floor_divide(ew.subtract(size, 1), 2)
    return _at(call, x, ew.where(ew.less(count, size), count, middle), dim)


@rule("aten.nanmedian.dim")
def _(call: Call, x: Traced, dim: int = -1, keepdim: bool = False) -> tuple[Traced, Traced]:
    """The lower of the two in the middle of those that are numbers, which lie before NaN."""
    if not x.ndim or not is_float(x.type.dtype):
        return _nth(call, x, (number(x.shape[dim], "the median") - 1) // 2 if x.ndim else 0, dim)
    middle = ew.floor_divide(ew.subtract(_numbers(x, dim), 1), 2)
    return _at(call, x, ew.maximum(middle, 0), dim)


def _numbers(x: Traced, dim: int) -> Traced:
    """How many elements along ``dim`` are not NaN, with the dim kept."""
    return reductions.sum(ew.cast(ew.logical_not(ew.isnan(x)), "i32"), dim % x.ndim, True)


def _at(call: Call, x: Traced, n: Traced, dim: int) -> tuple[Traced, Traced]:
    """Number ``n`` of the sorted elements along ``dim``, and its place."""
    values, places = (views.take_along(v, n, dim % x.ndim) for v in ordered(x, dim, False))
    return views.reshape(values, call.shape), views.reshape(places, call.shape)


@rule("aten.median.default")
def _(call: Call, x: Traced) -> Traced:
    size = number(product(x.shape), "the median")
    ordered_, _ = ordered(views.reshape(x, (size,)), 0, False)
    middle = views.reshape(part(ordered_, 0, (size - 1) // 2, (size - 1) // 2 + 1), ())
    if not is_float(x.type.dtype):
        return middle
    last = views.reshape(part(ordered_, 0, size - 1, size), ())  # NaN, if any is
    return ew.where(ew.isnan(last), last, middle)


@rule("aten.nanmedian.default")
def _(call: Call, x: Traced) -> Traced:
    """The lower of the two in the middle of those that are numbers, which lie before NaN."""
    size = number(product(x.shape), "the median")
    line = views.reshape(x, (size,))
    ordered_, _ = ordered(line, 0, False)
    count = reductions.sum(ew.cast(ew.equal(line, line), "i32"))
    at = ew.maximum(ew.floor_divide(ew.subtract(count, 1), 2), 0)
    return views.reshape(views.take(ordered_, views.reshape(at, (1,)), 0), ())


@rule("aten.mode")
def _(call: Call, x: Traced, dim: int = -1, keepdim: bool = False) -> tuple[Traced, Traced]:
    """The least of the most frequent elements, and the last place where it is."""
    if not x.ndim:
        return x, value(0, "i64")
    dim %= x.ndim
    most = views.expand_dims(orders.mode(x, dim), dim)
    place = ew.where(ew.equal(x, most), views.iota(x.shape, dim, "i32"), -1)
    return views.reshape(most, call.shape), views.reshape(reductions.max(place, dim), call.shape)


def _nth(call: Call, x: Traced, n: int, dim: int) -> tuple[Traced, Traced]:
    if not x.ndim:
        return x, value(0, "i64")
    values, places = (part(v, dim % x.ndim, n, n + 1) for v in ordered(x, dim, False))
    return views.reshape(values, call.shape), views.reshape(places, call.shape)


@rule("aten.histc")
def _(call: Call, x: Traced, bins: int = 100, min: float = 0, max: float = 0) -> Traced:
    """How many lie in each; between the least and the largest if ``min`` and ``max`` are equal."""
    return _histogram(x, bins, *_limits(x, (min, max) if min != max else None), None)


def _limits(x: Traced, given: Any) -> tuple[Any, Any]:
    """Where the first bin begins and the last one ends."""
    if given is not None:
        return float(given[0]), float(given[1])
    low, high = reductions.min(x), reductions.max(x)
    alike = ew.equal(low, high)
    return ew.where(alike, ew.subtract(low, 1.0), low), ew.where(alike, ew.add(high, 1.0), high)


def _histogram(x: Traced, bins: int, low: Any, high: Any, weights: Traced | None) -> Traced:
    step = ew.divide(float(bins), ew.subtract(high, low)) if isinstance(low, Traced) else bins / (high - low)
    x = ew.cast(x, "f64" if x.type.dtype == "f64" else "f32")
    place = ew.cast(ew.floor(ew.multiply(ew.subtract(x, low), step)), "i32")
    inside = ew.logical_and(ew.greater_equal(x, low), ew.less_equal(x, high))
    return orders.bincount(ew.where(inside, ew.minimum(place, bins - 1), -1), bins, weights)


@rule("aten.bincount")
def _(call: Call, x: Traced, weights: Traced | None = None, minlength: int = 0) -> Traced:
    """Where another array says how many places there are; else the largest number would."""
    return orders.bincount(x, call.shape[0], weights)


@rule("aten.histogram.bin_ct")
def _(call: Call, x: Traced, bins: int = 100, range: Any = None, weight: Traced | None = None, density: bool = False
      ) -> tuple[Traced, Traced]:  # fmt: skip
    low, high = _limits(x, range)
    step = ew.multiply(ew.subtract(value(high, call.dtype), low), 1.0 / bins)
    edges = ew.add(ew.multiply(ew.cast(views.arange(bins + 1), call.dtype), step), low)
    return _density(_histogram(x, bins, low, high, weight), edges, density, call.dtype), edges


@rule("aten.histogram.bins_tensor")
def _(call: Call, x: Traced, edges: Traced, weight: Traced | None = None, density: bool = False) -> tuple[Traced, Traced]:
    line = views.reshape(x, (product(x.shape),))
    bins = number(edges.shape[0], "a histogram") - 1
    inside = ew.logical_and(ew.greater_equal(line, edges[0]), ew.less_equal(line, edges[bins]))
    place = ew.minimum(ew.subtract(orders.searchsorted(edges, line, right=True), 1), bins - 1)
    weights = None if weight is None else views.reshape(weight, line.shape)
    return _density(orders.bincount(ew.where(inside, place, -1), bins, weights), edges, density, call.dtype), edges


def _density(counts: Traced, edges: Traced, density: bool, dtype: str) -> Traced:
    counts = value(counts, dtype)
    if not density:
        return counts
    widths = ew.multiply(ew.subtract(edges[1:], edges[:-1]), reductions.sum(counts))
    return ew.divide(counts, widths)


@rule("aten.bucketize")
def _(call: Call, values: Any, borders: Traced, out_int32: bool = False, right: bool = False) -> Traced:
    return _bisected(call, borders, value(values, _common(values, borders)), right)


@rule("aten.searchsorted")
def _(call: Call, line: Traced, values: Any, out_int32: bool = False, right: bool = False, side: str | None = None,
      sorter: Traced | None = None) -> Traced:  # fmt: skip
    line = views.take_along(line, sorter, line.ndim - 1) if sorter is not None else line
    return _bisected(call, line, value(values, _common(values, line)), right or side == "right")


def _common(values: Any, line: Traced) -> str:
    return common_dtype([values, line]) if isinstance(values, Traced) else line.type.dtype


@rule("aten.repeat_interleave.Tensor")
def _(call: Call, counts: Traced, output_size: int | None = None) -> Traced:
    """The number of each element as often as it counts: how many of the elements end before each place."""
    ends = reductions.cumsum(ew.cast(counts, "i64"), 0)
    return _bisected(call, ends, views.arange(call.shape[0], "i64"), right=True)


def _bisected(call: Call, line: Traced, values: Traced, right: bool) -> Traced:
    """How many elements of ``line`` along its last dim are before each of ``values``; NaN is behind all of them."""
    size = number(line.shape[-1], "the search in a line")
    line = ew.cast(line, values.type.dtype)
    alone = not values.ndim
    values = views.reshape(values, (1,)) if alone else values
    found = views.zeros(values.shape, "i32")
    for bit in reversed(range(size.bit_length())):
        at = ew.minimum(ew.add(found, (1 << bit) - 1), size - 1)
        there = views.take(line, at, 0) if line.ndim == 1 else views.take_along(line, at, line.ndim - 1)
        behind = ew.greater(there, values) if right else ew.greater_equal(there, values)
        last = ew.add(found, 1 << bit)
        found = ew.where(ew.logical_and(ew.less_equal(last, size), ew.logical_not(behind)), last, found)
    return views.reshape(found, call.shape) if alone else found
