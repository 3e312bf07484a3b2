"""Elements picked and put by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portakern.dtypes import numpy_dtype
from portakern.ir.size import product
from portakern.spec import elementwise as ew
from portakern.spec import orders, pieces, reductions, views
from portakern.spec.traced import Traced, broadcast_shapes
from portakern.torch_import.aten.products import vector_norm
from portakern.torch_import.aten.views import as_it_lies, part, strided
from portakern.torch_import.rules import RULES, Call, is_float, rule, spread, truth, value
from portakern.torch_import.types import NotImported


def from_front(index: Traced, size: Any) -> Traced:
    """Negative indices count from the end."""
    index = ew.cast(index, "i32") if index.type.dtype in ("u8", "i8", "i16") else index
    return ew.where(ew.less(index, 0), ew.add(index, value(size, index.type.dtype)), index)


@rule("aten.embedding")
def _(call: Call, table: Traced, index: Traced, *args: Any) -> Traced:
    return views.take(table, index, 0)


@rule("aten.index_select")
def _(call: Call, x: Traced, dim: int, index: Traced) -> Traced:
    if not x.ndim:
        return x
    return views.take(x, index if index.ndim else views.reshape(index, (1,)), dim % x.ndim)


@rule("aten.gather")
def _(call: Call, x: Traced, dim: int, index: Traced, sparse_grad: bool = False) -> Traced:
    if not product(index.shape) and index.ndim != x.ndim:
        return views.zeros(call.shape, call.dtype)
    if not x.ndim:
        return spread(x, call.shape)
    if not index.ndim:
        return views.reshape(views.take(x, views.reshape(index, (1,)), 0), call.shape)
    dim %= x.ndim
    for d, size in enumerate(index.shape):
        x = x if d == dim else part(x, d, 0, size)
    return views.take_along(x, index, dim)


# ---- several indices at once ----------------------------------------------------------------------------------------


class _Places:
    """Indices along some dims of ``x`` as one index along these dims taken together."""

    def __init__(self, x: Traced, indices: Sequence[Traced | None]) -> None:
        given = [(d, i) for d, i in enumerate(indices) if i is not None]
        if any(i.type.dtype == "bool" for _, i in given):
            raise NotImported("elements picked by a mask, whose number follows from the numbers inside it")
        self.dims = [d for d, _ in given]
        together = self.dims == list(range(self.dims[0], self.dims[0] + len(self.dims)))
        self.at = self.dims[0] if together else 0
        rest = [d for d in range(x.ndim) if d not in self.dims]
        self.order = (*rest[: self.at], *self.dims, *rest[self.at :])
        self.turned = views.transpose(x, self.order)
        self.sizes = tuple(x.shape[d] for d in self.dims)
        self.shape = broadcast_shapes([i.shape for _, i in given])
        flat: Traced | None = None
        for (d, index), size in zip(given, self.sizes, strict=True):
            index = spread(from_front(index, x.shape[d]), self.shape)
            index = index if flat is None else ew.cast(index, "i64")
            flat = index if flat is None else ew.add(ew.multiply(ew.cast(flat, "i64"), value(size, "i64")), index)
        assert flat is not None
        self.index = flat
        shape = self.turned.shape
        self.before, self.after = shape[: self.at], shape[self.at + len(self.dims) :]
        self.lines = views.reshape(self.turned, (*self.before, product(self.sizes), *self.after))

    def back(self, lines: Traced) -> Traced:
        turned = views.reshape(lines, self.turned.shape)
        return views.transpose(turned, [self.order.index(d) for d in range(len(self.order))])


@rule("aten.index", "aten._unsafe_index")
def _(call: Call, x: Traced, indices: Sequence[Traced | None]) -> Traced:
    places = _Places(x, indices)
    if not places.index.ndim:
        return views.reshape(views.take(places.lines, views.reshape(places.index, (1,)), places.at), call.shape)
    return views.take(places.lines, places.index, places.at)


@rule("aten._unsafe_masked_index")
def _(call: Call, x: Traced, mask: Traced, indices: Sequence[Traced | None], fill: Any) -> Traced:
    inside = [i if i is None else ew.clip(i, 0, _last(x, d, i)) for d, i in enumerate(indices)]
    picked = RULES["aten.index"](call, x, inside)
    return ew.where(spread(mask, picked.shape), picked, value(fill, call.dtype))


def _last(x: Traced, dim: int, index: Traced) -> Traced:
    return value(x.shape[dim] - 1, index.type.dtype)


@rule("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
def _(call: Call, x: Traced, indices: Sequence[Traced | None], values: Traced, accumulate: bool = False, unsafe: bool = False
      ) -> Traced:  # fmt: skip
    at = only_mask(indices)
    if at is not None:
        return _masked(x, at, indices[at], value(values, call.dtype), accumulate)  # type: ignore[arg-type]
    places = _Places(x, indices)
    whole = (*places.before, *places.shape, *places.after)
    count = product(places.shape)
    new = views.reshape(spread(value(values, call.dtype), whole), (*places.before, count, *places.after))
    index = ew.expand_at(views.reshape(places.index, (count,)), new.shape, (places.at,))
    return places.back(orders.scatter(places.lines, index, new, places.at, "add" if accumulate else "set"))


def only_mask(indices: Sequence[Traced | None]) -> int | None:
    """The place of the mask among indices of which the others are none."""
    given = [n for n, i in enumerate(indices) if i is not None]
    mask = indices[given[0]] if len(given) == 1 else None
    return given[0] if mask is not None and mask.type.dtype == "bool" else None


def _masked(x: Traced, at: int, mask: Traced, values: Traced, accumulate: bool) -> Traced:
    """``values`` where ``mask``, which is of the dims from ``at`` on, holds: one for all of these places, or one for each, in
    order."""
    before, after = x.shape[:at], x.shape[at + mask.ndim :]
    count = product(mask.shape)
    shape = (*before, count, *after)
    values = views.reshape(values, (*[1] * (len(shape) - values.ndim), *values.shape))
    holds = _line(mask)
    if values.shape[at] != 1:
        rank = ew.subtract(reductions.cumsum(ew.cast(holds, "i32"), 0), 1)
        values = views.take(values, rank, at)
    return put_where(x, at, mask, spread(values, shape), accumulate)


def put_where(x: Traced, at: int, mask: Traced, lines: Traced, accumulate: bool = False) -> Traced:
    """``x`` with lines where ``mask`` holds, whose dims are one dim of ``lines``."""
    flat = views.reshape(x, lines.shape)
    new = ew.add(flat, lines) if accumulate else lines
    return views.reshape(ew.where(ew.expand_at(_line(mask), flat.shape, (at,)), new, flat), x.shape)


@rule("aten.masked_scatter")
def _(call: Call, x: Traced, mask: Traced, source: Traced) -> Traced:
    """The n-th element where ``mask`` holds is the n-th of ``source``."""
    over, x = (_line(spread(v, call.shape)) for v in (mask, x))
    rank = ew.subtract(reductions.cumsum(ew.cast(over, "i64"), 0), 1)
    return views.reshape(ew.where(over, views.take(_line(source), rank, 0), x), call.shape)


# ---- scatters -------------------------------------------------------------------------------------------------------


def scattered(x: Traced, dim: int, index: Traced, new: Traced, mode: str) -> Traced:
    """``new`` put into ``x`` along ``dim``, where ``index`` may be shorter than both along any dim."""
    if not x.ndim:
        return views.reshape(scattered(views.reshape(x, (1,)), 0, _line(index), _line(new), mode), ())
    index, new = (v if v.ndim else views.reshape(v, (1,)) for v in (index, new))
    dim %= x.ndim
    for d, size in enumerate(index.shape):
        new = part(new, d, 0, size)
    within = x
    for d, size in enumerate(index.shape):
        within = within if d == dim else part(within, d, 0, size)
    made = orders.scatter(within, index, new, dim, mode)
    return _over(x, made)


def _line(x: Traced) -> Traced:
    return views.reshape(x, (product(x.shape),))


def _over(x: Traced, corner: Traced) -> Traced:
    """``x`` with ``corner`` in the place of its first elements."""
    return corner if corner.shape == x.shape else pieces.update(x, corner, [0] * x.ndim)


@rule("aten.scatter.src")
def _(call: Call, x: Traced, dim: int, index: Traced, source: Traced) -> Traced:
    return scattered(x, dim, index, source, "set")


@rule("aten.scatter.value")
def _(call: Call, x: Traced, dim: int, index: Traced, fill: Any) -> Traced:
    return scattered(x, dim, index, spread(value(fill, call.dtype), index.shape), "set")


@rule("aten.scatter.reduce", "aten.scatter.value_reduce")
def _(call: Call, x: Traced, dim: int, index: Traced, source: Any, *, reduce: str) -> Traced:
    given = source if isinstance(source, Traced) else spread(value(source, call.dtype), index.shape)
    return scattered(x, dim, index, given, {"add": "add", "multiply": "mul"}[reduce])


@rule("aten.scatter_add")
def _(call: Call, x: Traced, dim: int, index: Traced, source: Traced) -> Traced:
    return scattered(x, dim, index, source, "add")


_MODES = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _identity(reduce: str, dtype: str) -> Any:
    """What changes nothing when it is joined with another number."""
    if reduce not in ("amax", "amin"):
        return 1 if reduce == "prod" else 0
    if is_float(dtype):
        return float("-inf") if reduce == "amax" else float("inf")
    limits = np.iinfo(numpy_dtype(dtype))
    return int(limits.min if reduce == "amax" else limits.max)


@rule("aten.scatter_reduce.two")
def _(call: Call, x: Traced, dim: int, index: Traced, source: Traced, reduce: str, include_self: bool = True) -> Traced:
    made = x
    if not include_self or reduce == "mean":
        hits = scattered(views.zeros(x.shape, "i32"), dim, index, views.ones(source.shape, "i32"), "add")
    if not include_self:
        made = ew.where(ew.greater(hits, 0), value(_identity(reduce, call.dtype), call.dtype), made)
    made = scattered(made, dim, index, source, _MODES[reduce])
    if reduce != "mean":
        return made
    count = value(ew.maximum(ew.add(hits, 1) if include_self else hits, 1), call.dtype)
    return ew.divide(made, count) if is_float(call.dtype) else ew.floor_divide(made, count)


@rule("aten.index_reduce")
def _(call: Call, x: Traced, dim: int, index: Traced, source: Traced, reduce: str, include_self: bool = True) -> Traced:
    along = ew.expand_at(index, source.shape, (dim % x.ndim,))
    named = {"mean": "mean", "prod": "prod", "amax": "amax", "amin": "amin"}[reduce]
    return RULES["aten.scatter_reduce.two"](call, x, dim, along, source, named, include_self)


@rule("aten.put")
def _(call: Call, x: Traced, index: Traced, source: Traced, accumulate: bool = False) -> Traced:
    line, flat = _line(x), _line(index)
    flat = from_front(flat, line.shape[0])
    return views.reshape(orders.scatter(line, flat, _line(source), 0, "add" if accumulate else "set"), x.shape)


@rule("aten.as_strided_scatter")
def _(call: Call, x: Traced, source: Traced, size: Sequence[Any], stride: Sequence[Any], offset: Any = None) -> Traced:
    """Elements of the array as it lies."""
    if not product(tuple(size)):
        return x
    line = as_it_lies(call, x)
    place, new = _line(strided(call, x, size, stride, offset)), _line(spread(value(source, call.dtype), tuple(size)))
    made, order = orders.scatter(line, place, new, 0, "set"), call.lies.order or ()
    lying = views.reshape(made, tuple(x.shape[d] for d in order))
    return views.transpose(lying, tuple(order.index(d) for d in range(x.ndim)))


@rule("aten.nonzero_static")
def _(call: Call, x: Traced, size: int, fill_value: int = -1) -> Traced:
    """The places of the first ``size`` elements that are not 0 [size, rank]: each writes its place where its rank among them
    is, and those that are 0 or too many write nowhere."""
    there = truth(_line(x))
    rank = ew.subtract(reductions.cumsum(ew.cast(there, "i64"), 0), 1)
    target = ew.where(there, ew.minimum(rank, value(size, "i64")), value(size, "i64"))
    fill = spread(value(fill_value, "i64"), (size,))
    flat = views.iota(target.shape, 0, "i64")
    columns = []
    for d, extent in enumerate(x.shape):
        step = product(x.shape[d + 1 :])
        at = ew.remainder(ew.floor_divide(flat, value(step, "i64")), value(extent, "i64"))
        columns.append(orders.scatter(fill, target, at, 0, "set"))
    return pieces.stack(columns, 1) if columns else views.zeros(call.shape, "i64")


@rule("aten.embedding_renorm")
def _(call: Call, table: Traced, index: Traced, max_norm: float, norm_type: float = 2.0) -> Traced:
    """Rows that are looked up, and longer than ``max_norm``, are made that long."""
    size = vector_norm(table, float(norm_type), -1, True)
    ones = spread(value(1, "i32"), _line(index).shape)
    asked = orders.scatter(views.zeros((table.shape[0],), "i32"), ew.cast(_line(index), "i64"), ones, 0, "set")
    long = ew.logical_and(ew.greater(size, float(max_norm)), views.expand_dims(ew.greater(asked, 0), 1))
    return ew.multiply(table, ew.where(long, ew.divide(float(max_norm), ew.add(size, 1e-7)), 1.0))


@rule("aten.index_add")
def _(call: Call, x: Traced, dim: int, index: Traced, source: Traced, alpha: Any = 1) -> Traced:
    dim = dim % x.ndim if x.ndim else 0
    source = source if alpha == 1 else ew.multiply(source, value(alpha, call.dtype))
    along = ew.expand_at(index, source.shape, (dim,)) if index.ndim and source.ndim else index
    return scattered(x, dim, along, source, "add")
