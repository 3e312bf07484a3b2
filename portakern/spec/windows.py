"""What walks windows of an array: convolution, pooling, stencils."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from portakern.dtypes import DTYPES
from portakern.ir.size import Size, quotient
from portakern.ir.tensor import Convolve, WindowFold, Windows
from portakern.spec import elementwise as ew
from portakern.spec import pieces, reductions, views
from portakern.spec.contractions import pair, result_dtypes
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced, make

Each = int | Sequence[int]
"""A number for every spatial dim, or one for each."""

Pads = int | Sequence[int] | Sequence[tuple[int, int]]
"""A number for every spatial dim, one for each, or (before, after) of each."""


def _each(value: Each, n: int, what: str) -> tuple[int, ...]:
    values = (value,) * n if isinstance(value, int) else tuple(value)
    if len(values) != n or not builtins.all(isinstance(v, int) and v >= 1 for v in values):
        raise spec_error(f"{what} is {value!r}", f"it takes a positive number, or {n} of them, one for each spatial dim")
    return values


def _pads(padding: Pads, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    each = [padding] * n if isinstance(padding, int) else list(padding)
    pairs = [(p, p) if isinstance(p, int) else tuple(p) for p in each]
    if len(pairs) != n or not builtins.all(len(p) == 2 for p in pairs):
        raise spec_error(f"padding is {padding!r}", f"it takes a number, {n} of them, or {n} pairs of (before, after)")
    return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)


# ---- convolution ----------------------------------------------------------------------------------------------------


@located
def conv(
    x: Traced,
    w: Traced,
    stride: Each = 1,
    padding: Pads = 0,
    dilation: Each = 1,
    groups: int = 1,
    transposed: bool = False,
    dtype: Any = None,
    layout: str | None = None,
) -> Traced:
    """Convolution in 1 to 3 dims.

    ``layout="NHWC"``: x [N, *spatial, C] with w [*window, C / groups, O] gives [N, *positions, O].  ``"NCHW"``, as in PyTorch:
    x [N, C, *spatial] with w [O, C / groups, *window] (transposed: [C, O / groups, *window]) gives [N, O, *positions].
    By default it is the layout that the arrays fit, or NHWC if they fit both.

    ``padding`` is a number, one per spatial dim, or (before, after) pairs.  ``transposed`` is the gradient form, with
    (size - 1) * stride - before - after + dilation * (window - 1) + 1 positions; PyTorch's ``output_padding`` is subtracted
    from what is padded after.
    """
    n = x.ndim - 2
    x, w = pair(x, w)
    if not 1 <= n <= 3 or w.ndim != x.ndim:
        raise spec_error(f"conv of {x.type} and {w.type}: they have {x.ndim} and {w.ndim} dims", _CONV)
    if layout not in (None, "NHWC", "NCHW"):
        raise spec_error(f"layout is {layout!r}", 'it is "NHWC" or "NCHW", with any number of spatial dims')
    first = layout == "NCHW" or (layout is None and not _last_fits(x, w, groups) and _first_fits(x, w, groups, transposed))
    if first:
        x, w = _channels_last(x, w, groups, transposed)
    if not _last_fits(x, w, groups):
        raise spec_error(
            f"conv of {x.type} and {w.type}: the last dim of x is {x.shape[-1]}, the last but one of w wants "
            f"{w.shape[-2] * groups} channels{f' in {groups} groups' if groups > 1 else ''}", _CONV)  # fmt: skip
    if not builtins.all(isinstance(size, int) for size in w.shape[:n]):
        window = ", ".join(map(str, w.shape[:n]))
        turned = f"; w seems to be [O, C / groups, *window]: pk.permute(w, {(*range(2, n + 2), 1, 0)})"
        raise spec_error(f"conv with a window of [{window}] in {w.type}: its size must be known",
                         _CONV + (turned if builtins.all(isinstance(s, int) for s in w.shape[2:]) else ""))  # fmt: skip
    if isinstance(w.shape[-1], int) and w.shape[-1] % groups:
        raise spec_error(f"conv of {x.type} and {w.type}: {w.shape[-1]} outputs are not {groups} equal groups")
    low, high = _pads(padding, n)
    total, result = result_dtypes(x.type.dtype, dtype)
    raw = Convolve(x.op, w.op, _each(stride, n, "stride"), low, high, _each(dilation, n, "dilation"), groups, total, transposed)
    made = ew.cast(make(raw), result)
    return views.permute(made, (0, n + 1, *range(1, n + 1))) if first else made


_CONV = ("it takes x [N, *spatial, C] and w [*window, C / groups, O], or with layout=\"NCHW\" x [N, C, *spatial] and w "
         "[O, C / groups, *window], with 1 to 3 spatial dims and a window of known size")  # fmt: skip


def _last_fits(x: Traced, w: Traced, groups: int) -> bool:
    return x.shape[-1] == w.shape[-2] * groups


def _first_fits(x: Traced, w: Traced, groups: int, transposed: bool) -> bool:
    return x.shape[1] == (w.shape[0] if transposed else w.shape[1] * groups)


def _channels_last(x: Traced, w: Traced, groups: int, transposed: bool) -> tuple[Traced, Traced]:
    """x and w of PyTorch's layout as [N, *spatial, C] and [*window, C / groups, O]."""
    n = x.ndim - 2
    if not _first_fits(x, w, groups, transposed):
        wanted = w.shape[0] if transposed else w.shape[1] * groups
        raise spec_error(f"conv of {x.type} and {w.type}: x has {x.shape[1]} channels, w wants {wanted}", _CONV)
    window = tuple(range(2, n + 2))
    x = views.permute(x, (0, *window, 1))
    if not transposed:
        return x, views.permute(w, (*window, 1, 0))
    if groups == 1:
        return x, views.permute(w, (*window, 0, 1))
    # [groups, C / groups, O / groups, *window] to [*window, C / groups, groups, O / groups]
    channels, outputs, *sizes = w.shape
    part = quotient(channels, groups)
    if part is None:
        raise spec_error(f"conv of {x.type} and {w.type}: {channels} channels are not {groups} equal groups")
    split = views.reshape(w, (groups, part, outputs, *sizes))
    turned = views.permute(split, (*(d + 1 for d in window), 1, 0, 2))
    return x, views.reshape(turned, (*sizes, part, outputs * groups))


# ---- windows of any array -------------------------------------------------------------------------------------------


@located
def windows(x: Traced, window: Each, axes: Each | None = None, stride: Each = 1, dilation: Each = 1) -> Traced:
    """Overlapping windows of ``x`` along ``axes`` (by default the last ones): each becomes which window, and last dims are
    added for where in it, element [.., o, .., k] being ``x[.., stride * o + dilation * k, ..]``.  Only windows inside ``x``.

    A stencil is a sum over them: ``pk.sum(pk.windows(x, 3) * w, axis=-1)``.
    """
    count = len(window) if not isinstance(window, int) else len(views.check_axes(axes, x.ndim)) if axes is not None else 1
    along = tuple(range(x.ndim - count, x.ndim)) if axes is None else views.check_axes(axes, x.ndim)
    if len(along) != count:
        raise spec_error(f"{count} windows along {len(along)} axes")
    entries = _each(window, count, "window"), _each(stride, count, "stride"), _each(dilation, count, "dilation")
    return make(Windows(x.op, along, *entries))


@located
def unfold(x: Traced, window: Each, stride: Each = 1, padding: Pads = 0, dilation: Each = 1) -> Traced:
    """The windows of x [N, *spatial, C], each as one row: [N, *positions, C * taps], channels slowest as in PyTorch."""
    n = _spatial(x)
    low, high = _pads(padding, n)
    around = pieces.pad(x, [(0, 0), *zip(low, high, strict=True), (0, 0)])
    found = windows(around, _each(window, n, "window"), range(1, n + 1), stride, dilation)
    taps = 1
    for size in found.shape[n + 2 :]:
        taps = taps * size
    return views.reshape(found, (*found.shape[: n + 1], found.shape[n + 1] * taps))


def _spatial(x: Traced) -> int:
    if x.ndim < 3:
        raise spec_error(f"windows of an array of {x.ndim} dims", "it takes [N, *spatial, C]")
    return x.ndim - 2


# ---- pooling --------------------------------------------------------------------------------------------------------


class _Pooling:
    """Windows of x [N, *spatial, C] as pooling counts them."""

    def __init__(self, x: Traced, window: Each, stride: Each | None, padding: Pads, dilation: Each, ceil: bool) -> None:
        self.n = _spatial(x)
        self.x = x
        self.sizes = _each(window, self.n, "window")
        self.steps = self.sizes if stride is None else _each(stride, self.n, "stride")
        self.apart = _each(dilation, self.n, "dilation")
        self.low, self.high = _pads(padding, self.n)
        self.more = tuple(self._more(i) for i in range(self.n)) if ceil else (0,) * self.n

    def _more(self, i: int) -> int:
        """What is padded after dim ``i`` so that a last window that begins inside is counted, though it ends outside."""
        size = self.x.shape[1 + i]
        if not isinstance(size, int):
            raise spec_error("pooling with ceil=True along an open dim", "build it for given sizes")
        over = size + self.low[i] + self.high[i] - self.apart[i] * (self.sizes[i] - 1) - 1
        count = -(-over // self.steps[i])
        count -= count * self.steps[i] >= size + self.low[i]  # a window that would begin in what is padded after
        return builtins.max(count * self.steps[i] - over, 0)

    def fold(self, fn: str, x: Traced) -> Traced:
        def around(entries: Sequence[int], outside: int) -> tuple[int, ...]:
            return (outside, *entries, outside)

        high = [a + b for a, b in zip(self.high, self.more, strict=True)]
        return make(WindowFold(fn, x.op, around(self.sizes, 1), around(self.steps, 1), around(self.low, 0), around(high, 0),
                               around(self.apart, 1)))  # fmt: skip

    def inside(self, shape: Sequence[Size], i: int, pads: bool) -> Traced:
        """How many elements of each window along dim ``i`` are inside ``x``, or (``pads``) inside it and its padding."""
        begin = views.iota(shape, 1 + i) * self.steps[i] - self.low[i]
        first, end = (-self.low[i], self.x.shape[1 + i] + self.high[i]) if pads else (0, self.x.shape[1 + i])
        step = self.apart[i]
        before = ew.maximum((first - begin + (step - 1)) // step, 0) if first > -self.low[i] else 0
        return ew.minimum((end - begin + (step - 1)) // step, self.sizes[i]) - before


@located
def max_pool(x: Traced, window: Each, stride: Each | None = None, padding: Pads = 0, dilation: Each = 1, ceil: bool = False,
             indices: bool = False) -> Any:  # fmt: skip
    """The largest of every window of x [N, *spatial, C]; by default ``stride`` is the window's size.

    ``ceil`` counts a last window that ends outside; ``indices`` gives beside it the i32 index of the largest among all
    spatial elements of x, the lowest among equals.
    """
    p = _Pooling(x, window, stride, padding, dilation, ceil)
    top = p.fold("max", x)
    return (top, _places(p, top)) if indices else top


def _places(p: _Pooling, top: Traced) -> Traced:
    """Where in its window each largest element stands, as its number among the spatial elements of x."""
    kind = DTYPES[p.x.type.dtype]
    low = float("-inf") if kind.kind == "float" else -(2 ** (kind.bits - 1)) if kind.kind == "int" else 0
    high = [a + b for a, b in zip(p.high, p.more, strict=True)]
    around = pieces.pad(p.x, [(0, 0), *zip(p.low, high, strict=True), (0, 0)], low)
    seen = windows(around, p.sizes, range(1, p.n + 1), p.steps, p.apart)
    number: Traced | int = 0
    inside: Traced | None = None
    for i in range(p.n):
        size = p.x.shape[1 + i]
        place = views.iota(seen.shape, 1 + i) * p.steps[i] + views.iota(seen.shape, p.n + 2 + i) * p.apart[i] - p.low[i]
        number = number * size + place
        here = ew.logical_and(place >= 0, place < size)
        inside = here if inside is None else ew.logical_and(inside, here)
    assert inside is not None
    extreme = views.expand_dims(top, tuple(range(p.n + 2, 2 * p.n + 2)))
    hit = seen == extreme
    hit = ew.logical_or(hit, ew.isnan(seen)) if kind.is_float else hit
    places = ew.where(ew.logical_and(hit, inside), number, 2**31 - 1)
    return reductions.min(places, axis=tuple(range(p.n + 2, 2 * p.n + 2)))


@located
def min_pool(x: Traced, window: Each, stride: Each | None = None, padding: Pads = 0, dilation: Each = 1, ceil: bool = False
             ) -> Traced:  # fmt: skip
    """The smallest of every window of x [N, *spatial, C], as :func:`max_pool`."""
    return _Pooling(x, window, stride, padding, dilation, ceil).fold("min", x)


@located
def avg_pool(x: Traced, window: Each, stride: Each | None = None, padding: Pads = 0, ceil: bool = False, count_pads: bool = True
             ) -> Traced:  # fmt: skip
    """The mean of every window of x [N, *spatial, C]; pads count as zeros, unless ``count_pads`` is false: then only
    elements of x count.  What ``ceil`` adds after the pads never counts."""
    p = _Pooling(x, window, stride, padding, 1, ceil)
    total = p.fold("sum", x)
    if count_pads and not builtins.any(p.more):
        count = 1
        for size in p.sizes:
            count *= size
        return ew.divide(total, count)
    number: Traced | None = None
    for i in range(p.n):
        along = p.inside(total.shape, i, count_pads)
        number = along if number is None else number * along
    assert number is not None
    return ew.divide(total, ew.cast(number, "f32" if DTYPES[total.type.dtype].bits < 32 else total.type.dtype))


@located
def lp_pool(x: Traced, power: float, window: Each, stride: Each | None = None, ceil: bool = False) -> Traced:
    """The sum of ``abs(x) ** power`` over every window of x [N, *spatial, C], to the power of 1 / ``power``."""
    p = _Pooling(x, window, stride, 0, 1, ceil)
    raised = ew.square(x) if power == 2 else x if power == 1 else ew.pow(ew.abs(x), power)
    total = p.fold("sum", raised)
    return ew.sqrt(total) if power == 2 else total if power == 1 else ew.pow(total, 1.0 / power)


@located
def adaptive_avg_pool(x: Traced, size: Each) -> Traced:
    """The mean of ``size`` windows along each spatial dim of x [N, *spatial, C], window i of m over n elements being those from
    floor(i * n / m) to below ceil((i + 1) * n / m)."""
    for i, count in enumerate(_each(size, _spatial(x), "size")):
        x = _adaptive(x, 1 + i, count, reductions.mean)
    return x


@located
def adaptive_max_pool(x: Traced, size: Each) -> Traced:
    """The largest of ``size`` windows along each spatial dim of x [N, *spatial, C], windows as in :func:`adaptive_avg_pool`."""
    for i, count in enumerate(_each(size, _spatial(x), "size")):
        x = _adaptive(x, 1 + i, count, reductions.max)
    return x


SELECTED = 256
"""Elements of a line, times windows of different sizes on it, up to which each window is selected out of the line: that is
one kernel of a little more work, and not one for each window."""


def _selected(x: Traced, axis: int, count: int, reduce: Any) -> Traced:
    """``count`` windows along ``axis``, where their sizes are not all the same."""
    n = x.shape[axis]
    shape = (*x.shape[:axis], count, *x.shape[axis:])
    window, place = views.iota((count, n), 0, "i32"), views.iota((count, n), 1, "i32")
    inside = ew.logical_and((place + 1) * count > window * n, place * count < (window + 1) * n)
    line = ew.expand_at(x, shape, [d for d in range(len(shape)) if d != axis])
    here = ew.expand_at(inside, shape, (axis, axis + 1))
    if reduce is reductions.max:
        return reductions.max(ew.where(here, line, -math.inf), axis=axis + 1)
    total = reductions.sum(ew.where(here, line, 0), axis=axis + 1)
    at = views.iota(total.shape, axis, "i32")
    sizes = ew.floor_divide((at + 1) * n + (count - 1), count) - ew.floor_divide(at * n, count)
    return ew.divide(total, ew.cast(sizes, x.type.dtype))


def _adaptive(x: Traced, axis: int, count: int, reduce: Any) -> Traced:
    n = x.shape[axis]
    if (part := quotient(n, count)) is not None:
        split = views.reshape(x, (*x.shape[:axis], count, part, *x.shape[axis + 1 :]))
        return reduce(split, axis=axis + 1)
    if not isinstance(n, int):
        raise spec_error(f"{count} windows along an open dim {n}", f'declare it a multiple ("{count}*H"), or give its size')
    if n * count <= SELECTED and DTYPES[x.type.dtype].is_float:
        return _selected(x, axis, count, reduce)
    found = [reduce(views.getitem(x, (*[slice(None)] * axis, slice(i * n // count, -(-(i + 1) * n // count)))), axis=axis,
                    keepdims=True) for i in range(count)]  # fmt: skip
    return pieces.concat(found, axis)


@located
def local_response_norm(x: Traced, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, axis: int = -1
                        ) -> Traced:  # fmt: skip
    """``x / (k + alpha * mean of squares) ** beta``, the mean over ``size`` neighbours along ``axis``, zeros beyond ends."""
    d = views.check_axis(axis, x.ndim)
    squares = ew.square(ew.cast(x, "f32") if DTYPES[x.type.dtype].bits < 32 else x)

    def along(entry: int, other: int) -> tuple[int, ...]:
        return tuple(entry if i == d else other for i in range(x.ndim))

    ones = (1,) * x.ndim
    total = make(WindowFold("sum", squares.op, along(size, 1), ones, along(size // 2, 0), along((size - 1) // 2, 0), ones))
    return ew.cast(ew.divide(x, ew.pow(k + total * (alpha / size), beta)), x.type.dtype)
