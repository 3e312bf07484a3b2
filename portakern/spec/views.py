"""Shapes, moves and gathers: what changes where elements are and not what they are."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from types import EllipsisType
from typing import Any
from typing import cast as typed

from portakern.dtypes import DTYPES
from portakern.ir.size import Size, Sym, never_negative, product, quotient
from portakern.ir.tensor import Flip, Gather, Iota, Reshape, Slice, Transpose
from portakern.spec import elementwise as ew
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, as_traced, broadcast_shapes, dtype_name, make

Axis = int | Sequence[int] | None


def check_axis(axis: int, rank: int, what: str = "axis") -> int:
    """``axis`` counted from 0; raises :class:`SpecError` where an array of ``rank`` dims has no such axis."""
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        raise spec_error(
            f"{what} {axis!r} of an array of {rank} dims",
            f"axes are {-rank} to {rank - 1}" if rank else "a scalar has no axes",
        )
    return axis % rank


def check_axes(axis: Axis, rank: int) -> tuple[int, ...]:
    """``axis`` as axes counted from 0; ``None`` is all of them."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(check_axis(a, rank) for a in ([axis] if isinstance(axis, int) else axis))
    if len(set(axes)) != len(axes):
        raise spec_error(f"an axis appears twice in {axis!r}")
    return axes


# ---- shapes ---------------------------------------------------------------------------------------------------------


@located
def reshape(x: Traced, *shape: Any) -> Traced:
    """The same elements in row-major order under another shape; one dim may be -1."""
    sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
    if sizes.count(-1) > 1:
        raise spec_error("only one dim of reshape may be -1")
    for s in sizes:
        if not isinstance(s, int | Sym):
            raise spec_error(f"{s!r} is not a size", "use numbers and what x.shape gives")
    if -1 in sizes:
        known = product(tuple(s for s in sizes if s != -1))
        missing = quotient(product(x.shape), known)
        if missing is None:
            raise spec_error(f"{product(x.shape)} elements do not divide into {known}", _reshape_hint(product(x.shape), known))
        sizes[sizes.index(-1)] = missing
    return x if tuple(sizes) == x.shape else make(Reshape(x.op, tuple(sizes)))


def _reshape_hint(total: Size, part: Size) -> str:
    if isinstance(total, int):
        return "give every dim of reshape its size"
    count = part if isinstance(part, int) else part.divisibility
    made = f', and declare what must divide as a multiple: "{count}*H"' if count > 1 else ""
    return f"give every dim of reshape its size, as x.shape[1] // 2{made}"


@located
def transpose(x: Traced, *order: Any) -> Traced:
    """Dims in another order: ``order[i]`` is the dim of ``x`` that moves to place ``i``; by default reversed."""
    given = order[0] if len(order) == 1 and isinstance(order[0], tuple | list) else order
    axes = check_axes(typed("Axis", given), x.ndim) if given else tuple(reversed(range(x.ndim)))
    if len(axes) != x.ndim:
        raise spec_error(f"{len(axes)} axes to transpose an array of {x.ndim} dims", "name every axis once")
    return x if axes == tuple(range(x.ndim)) else make(Transpose(x.op, axes))


permute = transpose


@located
def swapaxes(x: Traced, a: int, b: int) -> Traced:
    """Two dims exchanged."""
    order = list(range(x.ndim))
    a, b = check_axis(a, x.ndim), check_axis(b, x.ndim)
    order[a], order[b] = b, a
    return transpose(x, order)


@located
def expand_dims(x: Traced, axis: int | Sequence[int]) -> Traced:
    """``x`` with dims of 1 inserted, such that they are at ``axis`` of the result."""
    count = 1 if isinstance(axis, int) else len(axis)
    new = check_axes(axis, x.ndim + count)
    kept = [i for i in range(x.ndim + count) if i not in new]
    sizes: list[Size] = [1] * (x.ndim + count)
    for place, dim in zip(kept, x.shape, strict=True):
        sizes[place] = dim
    return ew.expand_at(x, sizes, kept)


@located
def squeeze(x: Traced, axis: Axis = None) -> Traced:
    """`x` without dims of 1: those named, else all."""
    axes = tuple(i for i, s in enumerate(x.shape) if s == 1) if axis is None else check_axes(axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise spec_error(f"dim {a} is {x.shape[a]}, not 1", "take one element with x[..., 0], or reduce over it")
    return reshape(x, tuple(s for i, s in enumerate(x.shape) if i not in axes))


@located
def broadcast_to(x: Any, shape: Sequence[Size]) -> Traced:
    """``x`` repeated to ``shape``."""
    x = x if isinstance(x, Traced) else as_traced(x, "f32" if isinstance(x, float) else "i32")
    common = broadcast_shapes([x.shape, _checked(shape)])
    if common != tuple(shape):
        raise spec_error(f"{list(x.shape)} does not broadcast to {list(shape)}")
    return ew.expand(x, common)


# ---- sources --------------------------------------------------------------------------------------------------------


@located
def arange(n: Size, dtype: Any = "i32") -> Traced:
    """0, 1, ... n - 1; ``n`` may be a size (``x.shape[0]``)."""
    return make(Iota(_checked((n,)), 0, dtype_name(dtype)))


@located
def iota(shape: Sequence[Size], axis: int, dtype: Any = "i32") -> Traced:
    """The coordinate along ``axis`` at every element of ``shape``."""
    return make(Iota(_checked(shape), check_axis(axis, len(shape)), dtype_name(dtype)))


@located
def full(shape: Sequence[Size], value: float | int | bool | Traced, dtype: Any = "f32") -> Traced:
    """An array of ``value``."""
    return ew.expand(as_traced(value, dtype_name(dtype)), _checked(shape))


@located
def zeros(shape: Sequence[Size], dtype: Any = "f32") -> Traced:
    """An array of zeros."""
    return full(shape, 0, dtype)


@located
def ones(shape: Sequence[Size], dtype: Any = "f32") -> Traced:
    """An array of ones."""
    return full(shape, 1, dtype)


@located
def tri(rows: Size, columns: Size, k: Size = 0) -> Traced:
    """Boolean [rows, columns]: true on and below diagonal ``k``, that is where column <= row + k."""
    row, column = expand_dims(arange(rows), 1), expand_dims(arange(columns), 0)
    return ew.greater_equal(row if k == 0 else ew.add(row, k), column)


@located
def tril(x: Traced, k: Size = 0) -> Traced:
    """``x`` with zeros above diagonal ``k`` of its last two dims."""
    _check_matrix(x)
    return ew.where(tri(x.shape[-2], x.shape[-1], k), x, 0)


@located
def triu(x: Traced, k: Size = 0) -> Traced:
    """``x`` with zeros below diagonal ``k`` of its last two dims."""
    _check_matrix(x)
    return ew.where(tri(x.shape[-2], x.shape[-1], k - 1), 0, x)


def _check_matrix(x: Traced) -> None:
    if x.ndim < 2:
        raise spec_error(f"a triangle of an array of {x.ndim} dims", "it takes a matrix, or several: [..., rows, columns]")


def _checked(shape: Sequence[Any]) -> tuple[Size, ...]:
    """``shape`` as sizes; raises :class:`SpecError` for what is none."""
    for s in shape:
        if isinstance(s, bool) or not isinstance(s, int | Sym):
            raise spec_error(f"{s!r} is not a size", "use numbers and what x.shape gives")
    return tuple(shape)


# ---- order ----------------------------------------------------------------------------------------------------------


@located
def flip(x: Traced, axis: Axis = None) -> Traced:
    """`x` with the order of elements reversed along `axis`."""
    return make(Flip(x.op, check_axes(axis, x.ndim)))


# ---- indexing -------------------------------------------------------------------------------------------------------


@located
def getitem(x: Traced, key: Any) -> Traced:
    """``x[key]``: numbers, slices (with static or symbolic bounds), ``...``, ``None``, and one integer array."""
    keys = _full_key(x, key if isinstance(key, tuple) else (key,))
    starts: list[Size] = []
    stops: list[Size] = []
    steps: list[int] = []
    flips: list[int] = []
    shape: list[int | None] = []  # of the result: 1 where a dim is put in, None where one of x stays
    dropped: list[int] = []
    gathers: list[tuple[int, Traced]] = []
    dim = 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        size = x.shape[dim]
        if isinstance(k, Traced):
            gathers.append((dim, k))
            k = slice(None)
        if isinstance(k, int | Sym) and not isinstance(k, bool):
            start = _from_end(k, size)
            if isinstance(start, int) and isinstance(size, int) and not 0 <= start < size:
                raise spec_error(f"index {k} is outside a dim of {size}")
            starts.append(start)
            stops.append(start + 1)
            steps.append(1)
            dropped.append(dim)
        elif isinstance(k, slice):
            start, stop, step = _bounds(k, size)
            if step < 0:
                flips.append(dim)
            starts.append(start)
            stops.append(stop)
            steps.append(builtins.abs(step))
            shape.append(None)
        else:
            raise spec_error(f"arrays cannot be indexed by {k!r}", "use numbers, slices, ..., None or an integer array")
        dim += 1
    result = _sliced(x, starts, stops, steps)
    result = flip(result, flips) if flips else result
    kept = [i for i in range(x.ndim) if i not in dropped]
    if dropped:
        result = reshape(result, tuple(result.shape[i] for i in kept))
    if new := [i for i, s in enumerate(shape) if s == 1]:
        result = expand_dims(result, new)
    places = [i for i, s in enumerate(shape) if s is None]
    if len(gathers) > 1:
        raise spec_error("indexing by several arrays at once", "use pk.take or pk.take_along one axis after the other")
    for where, indices in gathers:
        result = take(result, indices, places[kept.index(where)])
    return result


def _full_key(x: Traced, keys: tuple[Any, ...]) -> list[Any]:
    """The key with ``...`` and missing dims written out."""
    used = builtins.sum(k is not None and not isinstance(k, EllipsisType) for k in keys)
    if used > x.ndim:
        raise spec_error(f"{used} indices for an array of {x.ndim} dims")
    rest = [slice(None)] * (x.ndim - used)
    dots = [i for i, k in enumerate(keys) if isinstance(k, EllipsisType)]
    if len(dots) > 1:
        raise spec_error("only one ... may stand in an index")
    if dots:
        return [*keys[: dots[0]], *rest, *keys[dots[0] + 1 :]]
    return [*keys, *rest]


def _from_end(k: Size, size: Size) -> Size:
    """The place that ``k`` names in a dim of ``size``: from its end where ``k`` is known to be below 0, as ``-D`` is."""
    below = k < 0 if isinstance(k, int) else never_negative(-k)
    return size + k if below else k


def _bounds(k: slice, size: Size) -> tuple[Size, Size, int]:
    step = 1 if k.step is None else k.step
    if not isinstance(step, int) or step == 0:
        raise spec_error(f"the step {step!r} of a slice", "steps are numbers other than 0")
    if step < 0:
        if (k.start, k.stop) != (None, None) or step != -1:
            raise spec_error("a slice with a negative step and bounds", "use pk.flip on a slice with a positive step")
        return 0, size, -1
    ends: list[Size] = []
    for bound, default in ((k.start, 0), (k.stop, size)):
        if bound is not None and not isinstance(bound, int | Sym):
            raise spec_error(f"the bound {bound!r} of a slice", "bounds are numbers or sizes (x.shape[0])")
        place = default if bound is None else _from_end(bound, size)
        ends.append(min(max(place, 0), size) if isinstance(place, int) and isinstance(size, int) else place)
    start, stop = ends
    if isinstance(start, int) and isinstance(stop, int):
        stop = max(start, stop)
    return start, stop, step


def _sliced(x: Traced, starts: list[Size], stops: list[Size], steps: list[int]) -> Traced:
    whole = all(a == 0 and b == s and c == 1 for a, b, s, c in zip(starts, stops, x.shape, steps, strict=True))
    return x if whole else make(Slice(x.op, tuple(starts), tuple(stops), tuple(steps)))


@located
def take(x: Traced, indices: Traced, axis: int = 0, fill: float | int = 0) -> Traced:
    """Elements along ``axis`` picked by an integer array of any shape; an index outside gives ``fill``."""
    check_indices(indices)
    return make(Gather(x.op, indices.op, check_axis(axis, x.ndim), False, fill))


@located
def take_along(x: Traced, indices: Traced, axis: int, fill: float | int = 0) -> Traced:
    """Per position, the element along ``axis`` that ``indices`` names (numpy ``take_along_axis``); the other dims of ``x`` and
    ``indices`` are broadcast to each other."""
    check_indices(indices)
    if indices.ndim != x.ndim:
        raise spec_error(f"take_along of an array of {x.ndim} dims by indices of {indices.ndim}",
                         "put a dim of 1 in where each line has one index: i[:, None]")  # fmt: skip
    axis = check_axis(axis, x.ndim)
    rest = [shape[:axis] + shape[axis + 1 :] for shape in (x.shape, indices.shape)]
    common = broadcast_shapes(rest)
    x, indices = (broadcast_to(a, (*common[:axis], a.shape[axis], *common[axis:])) for a in (x, indices))
    return make(Gather(x.op, indices.op, axis, True, fill))


def check_indices(indices: Any) -> None:
    if not isinstance(indices, Traced) or not DTYPES[indices.type.dtype].is_int:
        kind = indices.type.dtype if isinstance(indices, Traced) else f"{indices!r}"
        raise spec_error(f"indices are {kind}, not an array of integers",
                         'declare them so: pk.Tensor["M", pk.i32], or pk.cast(i, pk.i32)')  # fmt: skip
