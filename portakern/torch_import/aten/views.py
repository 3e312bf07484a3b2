"""What changes where elements are: shapes, parts, joins, pads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.ir.size import Size, product
from portakern.ir.tensor import Assemble, Slice
from portakern.spec import elementwise as ew
from portakern.spec import pieces, views, windows
from portakern.spec.traced import Traced, make
from portakern.torch_import.rules import Call, is_float, number, rule, spread, value
from portakern.torch_import.types import NotImported

# ---- shapes ---------------------------------------------------------------------------------------------------------


@rule("aten.view", "aten.reshape", "aten._unsafe_view", "aten._reshape_copy", "aten.view_copy", "aten.squeeze",
      "aten.unsqueeze",
      "aten.squeeze_copy", "aten.unsqueeze_copy", "aten._reshape_alias")
def _(call: Call, x: Traced, *args: Any) -> Traced:
    if call.base == "aten.unsqueeze" and x.ndim:
        return views.expand_dims(x, args[0])
    return views.reshape(x, call.shape)


@rule("aten.view.dtype")
def _(call: Call, x: Traced, dtype: Any) -> Traced:
    return ew.bitcast(x, call.dtype)


@rule("aten.expand", "aten.expand_copy")
def _(call: Call, x: Traced, size: Any, implicit: bool = False) -> Traced:
    return spread(x, call.shape)


@rule("aten.permute", "aten.permute_copy")
def _(call: Call, x: Traced, dims: Sequence[int]) -> Traced:
    return views.transpose(x, tuple(d % x.ndim for d in dims)) if x.ndim else x


@rule("aten.transpose", "aten.transpose_copy")
def _(call: Call, x: Traced, a: int, b: int) -> Traced:
    return views.swapaxes(x, a, b) if x.ndim else x


@rule("aten.t", "aten.t_copy")
def _(call: Call, x: Traced) -> Traced:
    return views.transpose(x) if x.ndim == 2 else x


@rule("aten.flip")
def _(call: Call, x: Traced, dims: Sequence[int]) -> Traced:
    return views.flip(x, tuple(d % x.ndim for d in dims)) if dims and x.ndim else x


@rule("aten.repeat")
def _(call: Call, x: Traced, counts: Sequence[Size]) -> Traced:
    """``counts`` may be more than ``x`` has dims; then those in front are new."""
    x = views.reshape(x, (*[1] * (len(counts) - x.ndim), *x.shape))
    between = [s for pair in zip(counts, x.shape, strict=True) for s in pair]
    return views.reshape(ew.expand_at(x, between, range(1, 2 * x.ndim, 2)), call.shape) if counts else x


# ---- parts ----------------------------------------------------------------------------------------------------------


def part(x: Traced, dim: int, start: Size, stop: Size, step: int = 1) -> Traced:
    """Elements from ``start`` to below ``stop`` along ``dim``."""
    if start == 0 and stop == x.shape[dim] and step == 1:
        return x
    starts: list[Size] = [0] * x.ndim
    stops, steps = list(x.shape), [1] * x.ndim
    starts[dim], stops[dim], steps[dim] = start, stop, step
    return make(Slice(x.op, tuple(starts), tuple(stops), tuple(steps)))


def bounds(size: Size, start: Size | None, stop: Size | None) -> tuple[Size, Size]:
    """PyTorch's bounds of a slice as they are inside a dim of ``size``."""
    first = _inside(size, 0 if start is None else start)
    last = _inside(size, size if stop is None else stop)
    if isinstance(first, int) and isinstance(last, int):
        last = max(first, last)
    return first, last


def _inside(size: Size, at: Size) -> Size:
    if isinstance(at, int):
        if at >= 2**62:
            return size
        at = size + at if at < 0 else at
    return min(max(at, 0), size) if isinstance(at, int) and isinstance(size, int) else at


def index_of(size: Size, at: Size) -> Size:
    return size + at if isinstance(at, int) and at < 0 else at


@rule("aten.slice", "aten.slice_copy")
def _(call: Call, x: Traced, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Traced:
    dim %= x.ndim
    return part(x, dim, *bounds(x.shape[dim], start, end), step)


@rule("aten.select", "aten.select_copy")
def _(call: Call, x: Traced, dim: int, index: Any) -> Traced:
    dim %= x.ndim
    if isinstance(index, Traced):
        return views.reshape(views.take(x, views.reshape(index, (1,)), dim), call.shape)
    at = index_of(x.shape[dim], index)
    return views.reshape(part(x, dim, at, at + 1), call.shape)


@rule("aten.split_with_sizes", "aten.split", "aten.split_copy", "aten.split_with_sizes_copy", "aten.chunk", "aten.tensor_split")
def _(call: Call, x: Traced, sizes: Any, dim: int = 0) -> tuple[Traced, ...]:
    dim %= x.ndim
    found, at = [], 0
    for meta in call.results:
        assert meta is not None
        found.append(part(x, dim, at, at + meta.shape[dim]))
        at = at + meta.shape[dim]
    return tuple(found)


@rule("aten.unbind", "aten.unbind_copy")
def _(call: Call, x: Traced, dim: int = 0) -> tuple[Traced, ...]:
    return tuple(views.reshape(part(x, dim % x.ndim, i, i + 1), m.shape) for i, m in enumerate(call.results) if m is not None)


@rule("aten.diagonal", "aten.diagonal_copy")
def _(call: Call, x: Traced, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Traced:
    a, b = dim1 % x.ndim, dim2 % x.ndim
    x = views.transpose(x, (*(d for d in range(x.ndim) if d not in (a, b)), a, b))
    rows, columns = x.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return _open_diagonal(x, offset, call.shape[-1])
    length = max(min(rows - max(-offset, 0), columns - max(offset, 0)), 0)
    if not length:
        return views.zeros(call.shape, call.dtype)
    # Of a block of ``length`` rows, seen as one line, every element after ``length + 1`` others.
    block = part(part(x, x.ndim - 2, max(-offset, 0), max(-offset, 0) + length), x.ndim - 1, max(offset, 0),
                 max(offset, 0) + length)
    line = views.reshape(block, (*block.shape[:-2], length * length))
    return part(line, line.ndim - 1, 0, length * length, length + 1)


def _open_diagonal(x: Traced, offset: int, length: Size) -> Traced:
    """Of each row the element in the column of its number."""
    row, column = max(-offset, 0), max(offset, 0)
    block = part(part(x, x.ndim - 2, row, row + length), x.ndim - 1, column, column + length)
    at = views.iota((*block.shape[:-1], 1), x.ndim - 2, "i32")
    return views.reshape(views.take_along(block, at, x.ndim - 1), block.shape[:-1])


@rule("aten.unfold", "aten.unfold_copy")
def _(call: Call, x: Traced, dim: int, size: int, step: int) -> Traced:
    return windows.windows(x, size, [dim % x.ndim], step) if x.ndim else views.reshape(x, call.shape)


@rule("aten.as_strided", "aten.as_strided_copy")
def _(call: Call, x: Traced, size: Sequence[Size], stride: Sequence[Size], offset: Any = None) -> Traced:
    """Elements of the array as it lies."""
    if call.contiguous and tuple(size) == x.shape and not offset and tuple(stride) == row_major(x.shape):
        return x
    return views.take(as_it_lies(call, x), strided(call, x, size, stride, offset), 0)


def as_it_lies(call: Call, x: Traced) -> Traced:
    """The elements of the first array in the order of its memory."""
    order = call.lies.order
    if order is None:
        raise NotImported("strides over an array with gaps between its elements in memory: an operator has its elements alone")
    return views.reshape(x if order == tuple(range(x.ndim)) else views.transpose(x, order), (product(x.shape),))


def strided(call: Call, x: Traced, size: Sequence[Size], stride: Sequence[Size], offset: Any) -> Traced:
    """Where each element of a strided array lies, counted from the first element of ``x``."""
    place: Any = 0 if offset is None else offset - call.lies.offset
    known = all(isinstance(n, int) for n in (place, *size, *stride, *x.shape)) and 0 not in size
    if known and not 0 <= place <= place + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) < product(x.shape):
        raise NotImported("elements outside of the array that it is called on: an operator has its elements alone, so "
                          "call it on the array that holds them all")  # fmt: skip
    for d, step in enumerate(stride):
        place = views.iota(tuple(size), d, "i64") * step + place
    return place if isinstance(place, Traced) else value(place, "i64")


def row_major(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    return tuple(product(shape[d + 1 :]) for d in range(len(shape)))


# ---- joins ----------------------------------------------------------------------------------------------------------


@rule("aten.cat")
def _(call: Call, arrays: Sequence[Traced], dim: int = 0) -> Traced:
    arrays = [value(a, call.dtype) for a in arrays if a.shape != (0,) or len(call.shape) == 1]
    dim %= len(call.shape)
    full = [a for a in arrays if a.shape[dim] != 0] or arrays[:1]
    return full[0] if len(full) == 1 else pieces.concat(full, dim)


@rule("aten.stack")
def _(call: Call, arrays: Sequence[Traced], dim: int = 0) -> Traced:
    return pieces.stack([value(a, call.dtype) for a in arrays], dim % len(call.shape))


def written(x: Traced, new: Traced, dim: int, start: Size, stop: Size, step: int) -> Traced:
    """``x`` with ``new`` in place of a slice along ``dim``."""
    if start == 0 and stop == x.shape[dim] and step == 1:
        return new
    if step == 1:
        ends = (part(x, dim, 0, start), new, part(x, dim, stop, x.shape[dim]))
        return pieces.concat([e for e in ends if e is not None and e.shape[dim] != 0] or [x], dim)
    # Elements of the slice, each with the step - 1 of x behind it.
    at = views.iota(x.shape, dim, "i64")
    here = ew.logical_and(ew.logical_and(at >= start, at < stop), ew.equal((at - start) % step, 0))
    return ew.where(here, placed(new, x.shape, dim, start, step), x)


def placed(x: Traced, shape: tuple[Size, ...], dim: int, start: Size, step: int) -> Traced:
    """``x`` in an array of ``shape``, from ``start`` on in steps along ``dim``, with zeros around it."""
    offsets: list[Size] = [0] * len(shape)
    steps = [1] * len(shape)
    offsets[dim], steps[dim] = start, step
    fill = 0.0 if is_float(x.type.dtype) else False if x.type.dtype == "bool" else 0
    return make(Assemble((x.op,), shape, tuple(offsets), tuple(steps), fill))


@rule("aten.slice_scatter")
def _(call: Call, x: Traced, new: Traced, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Traced:
    dim %= x.ndim
    first, last = bounds(x.shape[dim], start, end)
    return written(x, value(new, call.dtype), dim, first, last, step)


@rule("aten.select_scatter")
def _(call: Call, x: Traced, new: Traced, dim: int, index: Any) -> Traced:
    dim %= x.ndim
    at = index_of(x.shape[dim], index)
    return written(x, views.expand_dims(value(new, call.dtype), dim), dim, at, at + 1, 1)


@rule("aten.diagonal_scatter")
def _(call: Call, x: Traced, new: Traced, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Traced:
    a, b = dim1 % x.ndim, dim2 % x.ndim
    order = (*(d for d in range(x.ndim) if d not in (a, b)), a, b)
    turned = views.transpose(x, order)
    row, column = (views.iota(turned.shape, turned.ndim - n, "i64") for n in (2, 1))
    length = new.shape[-1]
    line = pieces.pad(value(new, call.dtype), [*[(0, 0)] * (new.ndim - 1), (max(-offset, 0), 0)])
    line = pieces.pad(line, [*[(0, 0)] * (new.ndim - 1), (0, max(number(turned.shape[-2], "a diagonal")
                                                                  - number(length, "a diagonal") - max(-offset, 0), 0))])
    lines = ew.expand_at(line, turned.shape, range(turned.ndim - 1))
    result = ew.where(ew.equal(column, row + offset), lines, turned)
    return views.transpose(result, [order.index(d) for d in range(x.ndim)])


# ---- pads -----------------------------------------------------------------------------------------------------------


def _widths(pads: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """(before, after) of every dim; PyTorch lists the last dim first."""
    pairs = [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


@rule("aten.constant_pad_nd")
def _(call: Call, x: Traced, pads: Sequence[int], fill: Any = 0) -> Traced:
    widths = _widths(pads, x.ndim)
    for dim, (low, high) in enumerate(widths):
        if low < 0 or high < 0:
            x = part(x, dim, max(-low, 0), x.shape[dim] - max(-high, 0))
    return pieces.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], fill)


@rule("aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
def _(call: Call, x: Traced, pads: Sequence[int]) -> Traced:
    return pieces.pad(x, _widths(pads, x.ndim), mode="reflect")


@rule("aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d")
def _(call: Call, x: Traced, pads: Sequence[int]) -> Traced:
    return pieces.pad(x, _widths(pads, x.ndim), mode="replicate")


@rule("aten.native_channel_shuffle", "aten.channel_shuffle")
def _(call: Call, x: Traced, groups: int) -> Traced:
    size, channels, *rest = x.shape
    apart = views.reshape(x, (size, groups, channels // groups, *rest))
    return views.reshape(views.swapaxes(apart, 1, 2), x.shape)


@rule("aten.roll")
def _(call: Call, x: Traced, shifts: Any, dims: Any = ()) -> Traced:
    if not dims:
        line = views.reshape(x, (product(x.shape),))
        return views.reshape(pieces.roll(line, shifts[0] if isinstance(shifts, list | tuple) else shifts, 0), x.shape)
    return pieces.roll(x, list(shifts), list(dims))


@rule("aten.tril")
def _(call: Call, x: Traced, diagonal: int = 0) -> Traced:
    return ew.where(views.tri(x.shape[-2], x.shape[-1], diagonal), x, value(0, call.dtype))


@rule("aten.triu")
def _(call: Call, x: Traced, diagonal: int = 0) -> Traced:
    return ew.where(views.tri(x.shape[-2], x.shape[-1], diagonal - 1), value(0, call.dtype), x)
