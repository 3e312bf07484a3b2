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
from portakern.torch_import.types import NotImported


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
    """The lower of the two in the middle."""
    return _nth(call, x, (number(x.shape[dim], "the median") - 1) // 2 if x.ndim else 0, dim)


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
    if min == max:
        raise NotImported("a histogram between the least and the largest element (min and max are equal)")
    place = ew.cast(ew.floor(ew.multiply(ew.cast(ew.subtract(x, min), "f32"), bins / (max - min))), "i32")
    inside = ew.logical_and(ew.greater_equal(x, min), ew.less_equal(x, max))
    return orders.bincount(ew.where(inside, ew.minimum(place, bins - 1), -1), bins)


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
