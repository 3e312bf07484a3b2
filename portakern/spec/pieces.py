"""Arrays made of parts of others: joining, padding, rolling, repeating, writing into a part."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.dtypes import DTYPES
from portakern.ir.size import Size, quotient
from portakern.ir.tensor import Concat, PadWith
from portakern.spec import elementwise as ew
from portakern.spec import views
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, as_traced, make, promote
from portakern.spec.views import check_axis

MODES = ("constant", "reflect", "replicate", "circular")


@located
def concat(arrays: Sequence[Traced], axis: int = 0) -> Traced:
    """Arrays one after the other along ``axis``."""
    if not arrays:
        raise spec_error("nothing to concatenate")
    name = promote([a.type.dtype for a in arrays])
    return make(Concat(tuple(as_traced(a, name).op for a in arrays), check_axis(axis, arrays[0].ndim)))


@located
def stack(arrays: Sequence[Traced], axis: int = 0) -> Traced:
    """Equally shaped arrays along a new dim at ``axis``."""
    return concat([views.expand_dims(a, axis) for a in arrays], axis)


@located
def interleave(arrays: Sequence[Traced], axis: int = -1) -> Traced:
    """Elements of equally shaped arrays in turns along ``axis``: the first of each, then the second of each, .."""
    if not arrays:
        raise spec_error("nothing to interleave")
    d = check_axis(axis, arrays[0].ndim)
    both = stack(arrays, d + 1)
    return views.reshape(both, (*both.shape[:d], both.shape[d] * len(arrays), *both.shape[d + 2 :]))


@located
def split(x: Traced, parts: int | Sequence[Size], axis: int = 0) -> tuple[Traced, ...]:
    """``x`` cut along ``axis``: in ``parts`` equal ones, or in parts of these sizes."""
    d = check_axis(axis, x.ndim)
    if isinstance(parts, int):
        each = quotient(x.shape[d], parts)
        if each is None:
            raise spec_error(f"{x.shape[d]} elements along axis {axis} are not {parts} equal parts", "give the size of each")
        sizes: Sequence[Size] = [each] * parts
    else:
        sizes = list(parts)
    found: list[Traced] = []
    at: Size = 0
    for size in sizes:
        found.append(_part(x, d, at, at + size))
        at = at + size
    if at != x.shape[d]:
        raise spec_error(f"parts of {', '.join(map(str, sizes))} have {at} elements, axis {axis} has {x.shape[d]}")
    return tuple(found)


@located
def pad(x: Traced, widths: Sequence[tuple[Size, Size]], value: float | int | bool = 0, mode: str = "constant") -> Traced:
    """``x`` with (before, after) more elements along each dim; either may be a size, as ``x.shape[0]``.

    ``mode``: ``constant`` ones of ``value``; ``reflect`` those on the other side of the outermost one; ``replicate`` the
    outermost one; ``circular`` those at the other end.
    """
    if len(widths) != x.ndim:
        raise spec_error(f"{len(widths)} pairs of widths for an array of {x.ndim} dims")
    if mode not in MODES:
        raise spec_error(f"mode is {mode!r}", f"it is {', '.join(MODES[:-1])} or {MODES[-1]}")
    if any(isinstance(n, int) and n < 0 for width in widths for n in width):
        raise spec_error(f"widths of {list(widths)}", "they must not be negative; slice instead")
    if mode == "constant":
        kind = DTYPES[x.type.dtype].kind
        filler = float(value) if kind == "float" else bool(value) if kind == "bool" else int(value)
        numbers = [tuple(n if isinstance(n, int) else 0 for n in width) for width in widths]
        x = make(PadWith(x.op, tuple(a for a, _ in numbers), tuple(b for _, b in numbers), filler))
        for d, width in enumerate(widths):  # what a size says is a piece of its own
            before, after = (_filled(x, d, n, filler) for n in width)
            x = concat([p for p in (before, x, after) if p is not None], d)
        return x
    for d, (before, after) in enumerate(widths):
        if before or after:
            x = _continued(x, d, before, after, mode)
    return x


def _filled(x: Traced, d: int, count: Size, value: float | int | bool) -> Traced | None:
    """``count`` elements of ``value`` beside ``x`` along dim ``d``, if that is a size and no number."""
    return None if isinstance(count, int) else views.full((*x.shape[:d], count, *x.shape[d + 1 :]), value, x.type.dtype)


def _continued(x: Traced, d: int, before: Size, after: Size, mode: str) -> Traced:
    """``x`` with elements of its own before and after it along dim ``d``."""
    size = x.shape[d]
    most = {"reflect": size - 1, "replicate": None, "circular": size}[mode]
    beyond = [n for n in (before, after) if isinstance(most, int) and isinstance(n, int) and n > most]
    if beyond:
        raise spec_error(f"{max(beyond)} elements of {mode} padding along a dim of {size}", f"there are at most {most}")
    if mode == "replicate":
        shape = x.shape

        def edge(at: Size, count: Size) -> Traced:
            return views.broadcast_to(_part(x, d, at, at + 1), (*shape[:d], count, *shape[d + 1 :]))

        parts = [edge(0, before) if before else None, x, edge(size - 1, after) if after else None]
    elif mode == "circular":
        parts = [_part(x, d, size - before, size) if before else None, x, _part(x, d, 0, after) if after else None]
    else:
        parts = [views.flip(_part(x, d, 1, before + 1), d) if before else None, x,
                 views.flip(_part(x, d, size - 1 - after, size - 1), d) if after else None]  # fmt: skip
    return concat([p for p in parts if p is not None], d)


def _part(x: Traced, d: int, start: Size, stop: Size) -> Traced:
    return views.getitem(x, (*[slice(None)] * d, slice(start, stop)))


@located
def roll(x: Traced, shift: int | Sequence[int], axis: int | Sequence[int] = -1) -> Traced:
    """``x`` with elements moved by ``shift`` along ``axis`` (several of both); what leaves one end comes in at the other."""
    shifts, axes = ([v] if isinstance(v, int) else list(v) for v in (shift, axis))
    if len(shifts) != len(axes):
        raise spec_error(f"{len(shifts)} shifts along {len(axes)} axes")
    for by, along in zip(shifts, axes, strict=True):
        d = check_axis(along, x.ndim)
        size = x.shape[d]
        by = by % max(size, 1) if isinstance(size, int) else by
        if by:
            cut = size - by if by > 0 else -by
            x = concat([_part(x, d, cut, size), _part(x, d, 0, cut)], d)
    return x


@located
def repeat(x: Traced, count: int, axis: int = -1) -> Traced:
    """Each element of ``x`` along ``axis`` ``count`` times, one after the other (numpy ``repeat``)."""
    d = check_axis(axis, x.ndim)
    shape = x.shape
    more = views.broadcast_to(views.expand_dims(x, d + 1), (*shape[: d + 1], count, *shape[d + 1 :]))
    return views.reshape(more, (*shape[:d], shape[d] * count, *shape[d + 1 :]))


@located
def tile(x: Traced, counts: Sequence[int]) -> Traced:
    """``x`` ``counts[d]`` times one after the other along each dim (numpy ``tile``)."""
    if len(counts) != x.ndim:
        raise spec_error(f"{len(counts)} counts for an array of {x.ndim} dims")
    for d, count in enumerate(counts):
        if count != 1:
            shape = x.shape
            more = views.broadcast_to(views.expand_dims(x, d), (*shape[:d], count, *shape[d:]))
            x = views.reshape(more, (*shape[:d], shape[d] * count, *shape[d + 1 :]))
    return x


@located
def update(x: Traced, part: Traced, starts: Sequence[Size]) -> Traced:
    """``x`` with ``part`` in the place of its elements from ``starts`` on."""
    if len(starts) != x.ndim or part.ndim != x.ndim:
        raise spec_error(f"update of {x.type} by {part.type} from {list(starts)}", "all have as many dims as the array")
    part = ew.cast(part, x.type.dtype)
    return _updated(x, part, list(starts), 0)


def _updated(x: Traced, part: Traced, starts: Sequence[Size], d: int) -> Traced:
    """``x``, which is as large as ``part`` along the dims before ``d``, with ``part`` in its place."""
    if d == x.ndim:
        return part
    size, start, stop = x.shape[d], starts[d], starts[d] + part.shape[d]
    if isinstance(start, int) and isinstance(stop, int) and isinstance(size, int) and not 0 <= start <= stop <= size:
        raise spec_error(f"elements {start} to {stop} of a dim of {size}", "the part must lie inside the array")
    middle = _updated(_part(x, d, start, stop), part, starts, d + 1)
    ends = [_part(x, d, 0, start) if start != 0 else None, middle, _part(x, d, stop, size) if stop != size else None]
    found = [e for e in ends if e is not None]
    return concat(found, d) if len(found) > 1 else middle


@located
def diag(x: Traced, k: int = 0) -> Traced:
    """The diagonal ``k`` above the main one of a matrix (or of each of a batch), or the matrix that has ``x`` on it."""
    from portakern.spec import reductions

    if x.ndim == 1:
        n = x.shape[0] + abs(k)
        rows, columns = views.iota((x.shape[0], n), 0), views.iota((x.shape[0], n), 1)
        lines = ew.where(columns == rows + max(k, 0), views.expand_dims(x, 1), 0)
        return pad(lines, [(max(-k, 0), max(k, 0)), (0, 0)])
    rows, columns = x.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise spec_error("the diagonal of a matrix of open size", "build it for given sizes")
    length = max(min(rows - max(-k, 0), columns - max(k, 0)), 0)
    cut = views.getitem(x, (..., slice(max(-k, 0), max(-k, 0) + length), slice(max(k, 0), max(k, 0) + length)))
    own = views.iota(cut.shape, cut.ndim - 2) == views.iota(cut.shape, cut.ndim - 1)
    return ew.cast(reductions.sum(ew.where(own, cut, 0), axis=-1), x.type.dtype)


@located
def one_hot(indices: Traced, count: Size, dtype: str = "f32") -> Traced:
    """1 where the coordinate along the new last dim is the index, else 0; all 0 if the index is outside."""
    line = views.arange(count, indices.type.dtype)
    return ew.cast(views.expand_dims(indices, -1) == line, dtype)
