"""Convolutions and pooling as products and reductions over windows of their input, which are views.

A convolution sums, over the taps of its window and the channels, products of a view of its input with its weights; where
windows are dense along the innermost spatial dim of an array with its channels last, the taps along it and the channels are
one axis.  A transposed convolution is one convolution for each phase of its strides, whose results are interleaved: no zero
between elements is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import gcd

from portakern.errors import LoweringError
from portakern.ir.core import Arg, Op
from portakern.ir.planes import PlaneConvolution, Planes
from portakern.ir.rewrite import Rules
from portakern.ir.size import Size, exact, product
from portakern.ir.tensor import (
    Assemble,
    Contract,
    Convert,
    Convolve,
    Expand,
    Flip,
    Fold,
    Literal,
    Map,
    PadWith,
    Reshape,
    Slice,
    Transpose,
    WindowFold,
    Windows,
    tensor_type,
)  # fmt: skip
from portakern.ir.tile import identity
from portakern.lower.pieces import Place, assembled

rules = Rules()
reaching = Rules()
"""For languages whose loads take pixels one by one, and zeros for those outside: what is padded is not stored before."""


@reaching.on(WindowFold)
def reduction_reads_outside(op: WindowFold) -> Op | None:
    """A reduction whose windows hang over the edges of lines of channels, or of planes: what is outside changes nothing."""
    t = tensor_type(op.x)
    dims = tuple(d for d, w in enumerate(op.window) if w > 1)
    alone = all(s == 1 for w, s in zip(op.window, op.strides, strict=True) if w == 1)
    last = bool(dims) and dims[-1] < t.rank - 1
    if not (last and alone and _reaches(_in_memory(op.x), op.low, op.high)) or 0 in tensor_type(op).shape:
        return None

    def each(entries: Sequence[Size]) -> tuple[int, ...]:
        return tuple(int(entries[d]) for d in dims)  # type: ignore[arg-type]

    view = Windows(op.x, dims, each(op.window), each(op.strides), each(op.dilation), each(op.low), each(op.high),
                   identity(op.fn, t.dtype), loc=op.loc)  # fmt: skip
    return Fold(op.fn, view, tuple(range(t.rank, t.rank + len(dims))), loc=op.loc)


@rules.on(WindowFold)
def reduction_over_windows(op: WindowFold) -> Op | None:
    t = tensor_type(op.x)
    x = _within(op.x, op.low, op.high, identity(op.fn, t.dtype), op)
    if any(w == 1 and s > 1 for w, s in zip(op.window, op.strides, strict=True)):
        x = _every(x, tuple(s if w == 1 else 1 for w, s in zip(op.window, op.strides, strict=True)))
    dims = tuple(d for d, w in enumerate(op.window) if w > 1)
    if not dims:
        return x

    def each(entries: Sequence[int]) -> tuple[int, ...]:
        return tuple(entries[d] for d in dims)

    view = Windows(x, dims, each(op.window), each(op.strides), each(op.dilation), loc=op.loc)
    return Fold(op.fn, view, tuple(range(t.rank, t.rank + len(dims))), loc=op.loc)


@rules.on(Convolve)
def convolution_is_a_product(op: Convolve) -> Op | None:
    if _is_of_nothing(op):
        return Expand(Literal(0.0, op.dtype), tensor_type(op).shape, ())
    if op.transposed:
        return _interleaved(op, _phases(op))
    x = _within(op.x, (0, *op.low, 0), (0, *op.high, 0), 0.0, op)
    return _correlation(x, op.w, op.strides, op.dilation, op)


def _is_of_nothing(op: Convolve) -> bool:
    """Whether it has no element, or each is the sum of no products."""
    return 0 in (*tensor_type(op).shape, *tensor_type(op.w).shape)


@reaching.on(Convolve)
def convolution_reads_outside(op: Convolve) -> Op | None:
    """A convolution whose pixels are whole lines of channels: the product of all of them, in a row, with the taps."""
    n = tensor_type(op.x).rank - 2
    channels = tensor_type(op.x).shape[-1]
    window = [int(k) for k in tensor_type(op.w).shape[:n]]  # type: ignore[arg-type]
    sliding = any(k > 1 or s > 1 for k, s in zip(window, op.strides, strict=True))
    if op.transposed:
        return _phases_reach(op)
    if not sliding or _is_of_nothing(op) or not _reaches(op.x, op.low, op.high):
        return None
    if op.groups == channels > 1:  # type: ignore[operator]
        return _each_alone(_all_taps(op.x, op, window), op.w, n, n, op)
    if int(tensor_type(op.w).shape[n]) % _LINE:  # type: ignore[arg-type]
        return None
    if op.groups > 1:  # type: ignore[operator]
        return _by_groups(_all_taps(_grouped(op.x, op.groups), op, window), op.w, n, n, op)
    view = _all_taps(op.x, op, window)
    return Contract(view, op.w, (), (), (*range(n + 2, 2 * n + 2), n + 1), tuple(range(n + 1)), op.dtype, loc=op.loc)


def of_planes(planes: Planes) -> Rules:
    """Rules for languages whose loads take pixels of planes with all taps and channels that meet them, for which ``planes``."""
    found = Rules()

    @found.on(Convolve)
    def convolution_of_planes(op: Convolve) -> Op | None:
        """A convolution of planes, whose channels do not lie last, as the product of its weights with all pixels in a row."""
        if op.groups != 1 or _is_of_nothing(op) or not _is_of_planes(op.x):
            return None
        n = tensor_type(op.x).rank - 2
        sizes = (*tensor_type(op.x).shape[1:], *tensor_type(op.w).shape, *tensor_type(op).shape[1:], *op.high)
        if not all(isinstance(s, int) for s in sizes) or product(tensor_type(op.x).shape[1:]) >= _FAR:  # type: ignore[operator]
            return None
        t, line = tensor_type(op.x), int(tensor_type(op).shape[-2])  # type: ignore[arg-type]
        stride = 1 if op.transposed else op.strides[-1]
        if not planes(PlaneConvolution(t.dtype, int(t.shape[-1]), line, stride, op.transposed)):  # type: ignore[arg-type]
            return None
        if op.transposed:
            return _interleaved(op, lambda chosen: _phase_of_planes(op, chosen))
        window = [int(k) for k in tensor_type(op.w).shape[:n]]  # type: ignore[arg-type]
        if product(tuple(window)) == 1 or min(*op.low, *op.high) < 0:  # type: ignore[type-var]
            return None
        return _all_at_once(_all_taps(op.x, op, window), op.w, op)

    return found


_FAR = 1 << 29
"""Elements of an image, below which taps and channels are so many bytes apart as 32 bits say."""


def _is_of_planes(x: Op) -> bool:
    """Whether ``x`` is an input [N, C, *spatial] seen with its channels last."""
    rank = tensor_type(x).rank
    return isinstance(x, Transpose) and isinstance(x.x, Arg) and x.order == (0, *range(2, rank), 1)


def _phase_of_planes(op: Convolve, chosen: Sequence[Phase]) -> Op | None:
    low, ends = _around(op, chosen)
    high = tuple(n for n in ends if isinstance(n, int))
    n = len(chosen)
    if len(high) < n or min(*low, *high) < 0:
        return None
    view = Windows(op.x, tuple(range(1, n + 1)), tuple(p.taps for p in chosen), (1,) * n, tuple(p.apart for p in chosen), low,
                   high, 0.0, loc=op.loc)  # fmt: skip
    return _all_at_once(view, _met(op, chosen), op)


def _all_at_once(view: Op, w: Op, op: Convolve) -> Op:
    """[N, *positions, C, *taps] by [*taps, C, O], summed in the order in which the weights lie in memory."""
    n = tensor_type(op.x).rank - 2
    taps, of_taps = tuple(range(n + 2, 2 * n + 2)), tuple(range(n))
    if isinstance(w, Transpose) and isinstance(w.x, Arg) and w.order.index(n) < 2:
        summed = ((n + 1, *taps), (n, *of_taps))
    else:
        summed = ((*taps, n + 1), (*of_taps, n))
    return Contract(view, w, (), (), *summed, op.dtype, loc=op.loc)


columns = Rules()
"""For those of them whose products take many elements along k at a time."""


@columns.on(Convolve)
def columns_of_few_channels(op: Convolve) -> Op | None:
    """A convolution of few channels as a product with the taps of each pixel, which are stored in a column before.

    A step of a matrix unit takes sixteen channels of a pixel, of which there are three, where a column has 27 elements.  It
    costs an array of as many columns as there are pixels, which is to be a few times as large as the result at the most.
    """
    n = tensor_type(op.x).rank - 2
    *window, channels, outputs = tensor_type(op.w).shape
    sizes = (*tensor_type(op.x).shape[1:], *window, channels, outputs, *op.high)
    if op.transposed or op.groups != 1 or _is_of_nothing(op) or not all(isinstance(s, int) for s in sizes):
        return None
    taps = product(tuple(window))
    few = channels <= _FEW and taps > 1 and channels * taps <= _TALL * outputs  # type: ignore[operator]
    if not few or min(*op.low, *op.high) < 0 or _fills_lines(op):  # type: ignore[type-var]
        return None
    view = _all_taps(op.x, op, [int(k) for k in window])  # type: ignore[arg-type]
    first = (0, *range(n + 2, 2 * n + 2), n + 1, *range(1, n + 1))
    shape = tensor_type(view).shape
    columns = Reshape(Transpose(view, first), (shape[0], channels * taps, *shape[1 : n + 1]), loc=op.loc)
    return Contract(columns, Reshape(op.w, (channels * taps, outputs)), (), (), (1,), (0,), op.dtype, loc=op.loc)


_FEW, _TALL = 4, 6
"""Channels that fill a quarter of a step, and how many times as long as a pixel of the result a column may be."""


def _fills_lines(op: Convolve) -> bool:
    """Whether the taps of a row of the window, which lie one after the other, fill most of the steps that take them."""
    *_, last, channels, _ = tensor_type(op.w).shape
    row = int(last) * int(channels)  # type: ignore[arg-type]
    dense = last > 1 and op.dilation[-1] == 1 and (any((*op.low, *op.high)) or _channels_last(op.x))  # type: ignore[operator]
    return dense and -row % _LINE * 2 <= row


def _phases_reach(op: Convolve) -> Op | None:
    """A transposed convolution whose phases are products of all pixels with the taps that they meet."""
    n = tensor_type(op.x).rank - 2
    channels = tensor_type(op.x).shape[-1]
    if op.groups != 1 or 0 in tensor_type(op).shape or not _reaches(op.x, (0,), (0,)) or int(channels) % _LINE:  # type: ignore[arg-type]
        return None

    def phase(chosen: Sequence[Phase]) -> Op | None:
        low, ends = _around(op, chosen)
        high = tuple(n for n in ends if isinstance(n, int))
        if len(high) < n or min(*low, *high) < 0:
            return None
        dims, taps = tuple(range(1, n + 1)), tuple(p.taps for p in chosen)
        view = Windows(op.x, dims, taps, (1,) * n, tuple(p.apart for p in chosen), low, high, 0.0, loc=op.loc)
        summed = (*range(n + 2, 2 * n + 2), n + 1)
        return Contract(view, _met(op, chosen), (), (), summed, tuple(range(n + 1)), op.dtype, loc=op.loc)

    return _interleaved(op, phase)


def _all_taps(x: Op, op: Convolve, window: Sequence[int]) -> Op:
    """[N, *positions, ..., *taps] of ``x`` [N, *spatial, ...], which has the channels of ``op`` or groups of them."""
    dims = tuple(range(1, len(window) + 1))
    return Windows(x, dims, tuple(window), op.strides, op.dilation, op.low, tuple(map(int, op.high)), 0.0,  # type: ignore[arg-type]
                   loc=op.loc)  # fmt: skip


def _reaches(x: Op, low: Sequence[int], high: Sequence[Size]) -> bool:
    """Whether loads may find what is around ``x`` for themselves: its sizes are known, and it lies as it is counted."""
    sizes = tensor_type(x).shape[1:]
    return all(isinstance(s, int) for s in (*sizes, *high)) and min(*low, *high) >= 0 and _lies_in_lines(x)  # type: ignore[type-var]


_LINE = 16
"""Channels, a multiple of which one step of a product takes from each pixel."""


def _in_memory(x: Op) -> Op:
    """What ``x`` is a view of with its dims in another order, or more of one element."""
    while isinstance(x, Transpose) or (isinstance(x, Expand) and product(x.shape) == product(tensor_type(x.x).shape)):
        x = x.x
    return x


def _lies_in_lines(x: Op) -> bool:
    """Whether the pixels of ``x`` are stored as they are counted: it is an array, or will be.  What is computed is stored as
    windows see it, were it computed in another order of its dims, as a network of planes is written."""
    while isinstance(x, Convert):
        x = x.x
    if isinstance(x, Transpose) and not isinstance(_in_memory(x), Arg | Assemble | Convert | Slice | Flip | Expand | Reshape):
        return True
    return not isinstance(x, Transpose | Slice | Flip | Expand | Reshape)


def _within(x: Op, low: Sequence[int], high: Sequence[Size], value: float | int | bool, like: Op) -> Op:
    """``x`` with ``value`` around it, or without its outermost elements where ``low`` or ``high`` are negative."""
    if not all(isinstance(n, int) for n in high):
        raise LoweringError("a transposed convolution whose last windows depend on open dims", where=str(like.loc or ""),
                            hint="build it for given sizes")  # fmt: skip
    ends = [int(n) for n in high]  # type: ignore[arg-type]
    shape = tensor_type(x).shape
    if any(n < 0 for n in (*low, *ends)):
        starts = tuple(max(-n, 0) for n in low)
        x = Slice(x, starts, tuple(s + min(n, 0) for s, n in zip(shape, ends, strict=True)), (1,) * len(shape), loc=like.loc)
    pads = tuple(max(n, 0) for n in low), tuple(max(n, 0) for n in ends)
    return PadWith(x, *pads, value, loc=like.loc) if any((*pads[0], *pads[1])) else x


def _every(x: Op, steps: tuple[int, ...]) -> Op:
    """Every ``steps[d]``-th element along each dim."""
    shape = tensor_type(x).shape
    return Slice(x, (0,) * len(shape), shape, steps)


def _correlation(x: Op, w: Op, strides: Sequence[int], dilation: Sequence[int], like: Convolve) -> Op:
    """[N, *spatial, C] correlated with [*window, C / groups, O], every window inside: [N, *positions, O]."""
    n = tensor_type(x).rank - 2
    window = tuple(int(k) for k in tensor_type(w).shape[:n])  # type: ignore[arg-type]
    if any(k == 1 and s > 1 for k, s in zip(window, strides, strict=True)):
        x = _every(x, (1, *(s if k == 1 else 1 for k, s in zip(window, strides, strict=True)), 1))
    taken = [i for i in range(n) if window[i] > 1]
    channels, outputs = tensor_type(w).shape[n:]
    w = Reshape(w, (*(window[i] for i in taken), channels, outputs))
    if like.groups == 1:
        return _dense(x, w, taken, strides, dilation, like)
    k = len(taken)
    if channels == 1:
        return _each_alone(_windows(x, taken, tensor_type(w).shape, strides, dilation, like), w, n, k, like)
    view = _windows(_grouped(x, like.groups), taken, tensor_type(w).shape, strides, dilation, like)
    return _by_groups(view, w, n, k, like)


def _grouped(x: Op, groups: Size) -> Op:
    """The channels of ``x`` as groups and the channels of each."""
    *pixels, channels = tensor_type(x).shape
    return Reshape(x, (*pixels, groups, exact(channels, groups)))


def _by_groups(view: Op, w: Op, n: int, k: int, like: Convolve) -> Op:
    """[N, *positions, g, C / g, *taps] with [*taps, C / g, O]: [N, *positions, O], each group's sums of its own channels."""
    *taps, outputs = tensor_type(w).shape
    w = Reshape(w, (*taps, like.groups, exact(outputs, like.groups)))
    summed = (*range(n + 3, n + 3 + k), n + 2)
    made = Contract(view, w, (n + 1,), (k + 1,), summed, tuple(range(k + 1)), like.dtype, loc=like.loc)
    back = Transpose(made, (*range(1, n + 2), 0, n + 2))  # from [g, N, *positions, O / g]
    return Reshape(back, (*tensor_type(view).shape[: n + 1], outputs))


def _each_alone(view: Op, w: Op, n: int, k: int, like: Convolve) -> Op:
    """[N, *positions, C, *taps] with [*taps, 1, O], where every channel is a group: no matrix is multiplied, so channels stay
    side by side and products are summed over the taps as pooling does."""
    shape = tensor_type(view).shape
    near, taps = shape[: n + 2], shape[n + 2 :]
    each = exact(tensor_type(w).shape[-1], like.groups)
    whole = (*near, each, *taps)
    last = tuple(range(n + 3, n + 3 + k))
    mine = Expand(Convert(view, like.dtype), whole, (*range(n + 2), *last))
    weights = Transpose(Reshape(Convert(w, like.dtype), (*taps, near[-1], each)), (k, k + 1, *range(k)))
    products = Map("mul", (mine, Expand(weights, whole, (n + 1, n + 2, *last))), loc=like.loc)
    total = Fold("sum", products, last, loc=like.loc) if k else products
    return Reshape(total, (*near[:-1], near[-1] * each))


def _dense(x: Op, w: Op, taken: Sequence[int], strides: Sequence[int], dilation: Sequence[int], like: Convolve) -> Op:
    n = tensor_type(x).rank - 2
    k = len(taken)
    shape, taps = tensor_type(x).shape, tensor_type(w).shape
    channels = shape[-1]
    last = n - 1
    if taken and taken[-1] == last and dilation[last] == 1 and isinstance(channels, int) and _channels_last(x):
        # Neighbouring taps and their channels lie one after the other.
        rows = _in_rows(x)
        row = int(taps[k - 1]) * channels  # type: ignore[arg-type]
        wide = [*strides[:last], strides[last] * channels]
        view = _windows(rows, taken, (*taps[: k - 1], row), wide, dilation, like)  # [N, *positions, *taps]
        summed = tuple(range(n + 1, n + 1 + k))
        w = Reshape(w, (*taps[: k - 1], row, taps[-1]))
        return Contract(view, w, (), (), summed, tuple(range(k)), like.dtype, loc=like.loc)
    view = _windows(x, taken, taps, strides, dilation, like)  # [N, *positions, C, *taps]
    summed = (*range(n + 2, n + 2 + k), n + 1)
    return Contract(view, w, (), (), summed, tuple(range(k + 1)), like.dtype, loc=like.loc)


def _in_rows(x: Op) -> Op:
    """[N, .., W * C] of ``x`` [N, .., W, C]; what is a part of an array is a part of its rows, which need no copy then."""
    def joined(shape: Sequence[Size]) -> tuple[Size, ...]:
        return (*shape[:-2], shape[-2] * shape[-1])

    shape = tensor_type(x).shape
    if isinstance(x, Slice) and set(x.steps) == {1} and (x.starts[-1], x.stops[-1]) == (0, tensor_type(x.x).shape[-1]):
        rows = Reshape(x.x, joined(tensor_type(x.x).shape))
        return Slice(rows, (*x.starts[:-2], x.starts[-2] * shape[-1]), joined(x.stops), (1,) * (len(shape) - 1), loc=x.loc)
    return Reshape(x, joined(shape))


def _channels_last(x: Op) -> bool:
    """Whether the channels of ``x`` lie side by side: not in an input that is seen with its dims in another order."""
    while isinstance(x, Slice):
        x = x.x
    return not isinstance(x, Transpose)


def _windows(x: Op, taken: Sequence[int], taps: Sequence[Size], strides: Sequence[int], dilation: Sequence[int],
             like: Op) -> Op:  # fmt: skip
    if not taken:
        return x
    dims, window = tuple(1 + i for i in taken), tuple(int(t) for t in taps[: len(taken)])  # type: ignore[arg-type]
    return Windows(x, dims, window, tuple(strides[i] for i in taken), tuple(dilation[i] for i in taken), loc=like.loc)


# ---- the gradient form ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """The positions ``first``, ``first + stride``, .. of one dim of a transposed convolution's result, ``count`` of them.

    Each is the sum over ``taps`` taps, ``tap``, ``tap + every``, .., of the weights times elements of the input: the first
    position's last tap meets element ``begin`` of the input, and each tap before it one ``apart`` elements later.
    """

    first: int
    count: Size
    tap: int
    every: int
    taps: int
    begin: int
    apart: int


def phases(window: int, stride: int, low: int, dilation: int, result: Size) -> Iterator[Phase]:
    """The phases of one dim of a transposed convolution, whose result has ``result`` positions.

    Position p is the sum of x[i] * w[k] over stride * i + dilation * k = p + low.  So which taps meet it depends on the
    remainder of p + low alone, and with q = (p + low) // stride, x[q - j] meets tap k where dilation * k = remainder +
    stride * j.
    """
    common = gcd(stride, dilation)
    for remainder in range(stride):
        met = [k for k in range(window) if (dilation * k - remainder) % stride == 0]
        q = -((remainder - low) // stride)  # the lowest of which the position is not before the first
        first = q * stride + remainder - low
        count = (result - 1 - first) // stride + 1
        if isinstance(count, int) and count <= 0:
            continue
        last = (dilation * met[-1] - remainder) // stride if met else 0
        yield Phase(first, count, met[0] if met else 0, stride // common, len(met), q - last, dilation // common)


def _phases_of(op: Convolve) -> list[list[Phase]]:
    """Those of each dim."""
    n = tensor_type(op.x).rank - 2
    window = [int(k) for k in tensor_type(op.w).shape[:n]]  # type: ignore[arg-type]
    shape = tensor_type(op).shape
    return [list(phases(window[i], op.strides[i], op.low[i], op.dilation[i], shape[1 + i])) for i in range(n)]


def _interleaved(op: Convolve, phase: Callable[[Sequence[Phase]], Op | None]) -> Op | None:
    """The results of all phases at their places; nothing where ``phase`` makes nothing of one."""
    shape, sizes = tensor_type(op).shape, tensor_type(op.x).shape
    if 0 in sizes:
        return Expand(Literal(0.0, op.dtype), shape, ())
    each = _phases_of(op)
    parts: list[Op] = []
    places: list[Place] = []
    empty = False
    for chosen in combinations(*each):
        if any(p.taps == 0 for p in chosen):
            empty = True
            continue
        part = phase(chosen)
        if part is None:
            return None
        parts.append(part)
        places.append(((0, *(p.first for p in chosen), 0), (1, *op.strides, 1)))
    if not parts:
        return Expand(Literal(0.0, op.dtype), shape, ())
    return assembled(parts, shape, places, 0.0 if empty else None, op)


def _phases(op: Convolve) -> Callable[[Sequence[Phase]], Op]:
    """One phase along every dim: an ordinary correlation of the input with the taps that it meets, turned around.

    All of them look at parts of one array, which has as much around it as any of them needs.
    """
    every = _phases_of(op)
    ends = [[_around_dim(p, size) for p in each] for each, size in zip(every, tensor_type(op.x).shape[1:-1], strict=True)]
    low = [max(0, *(n for n, _ in e)) for e in ends]
    if not all(isinstance(n, int) for e in ends for _, n in e):
        return lambda chosen: _phase_alone(op, chosen)
    high = [max(0, *(int(n) for _, n in e)) for e in ends]  # type: ignore[arg-type]
    x = _within(op.x, (0, *low, 0), (0, *high, 0), 0.0, op)
    shape = tensor_type(x).shape

    def phase(chosen: Sequence[Phase]) -> Op:
        starts = (0, *(n + p.begin for n, p in zip(low, chosen, strict=True)), 0)
        stops = [b + p.count + (p.taps - 1) * p.apart for b, p in zip(starts[1:-1], chosen, strict=True)]
        part = Slice(x, starts, (shape[0], *stops, shape[-1]), (1,) * len(shape), loc=op.loc)
        return _correlation(part, _met(op, chosen), (1,) * len(chosen), [p.apart for p in chosen], op)

    return phase


def _phase_alone(op: Convolve, chosen: Sequence[Phase]) -> Op:
    low, high = _around(op, chosen)
    x = _within(op.x, (0, *low, 0), (0, *high, 0), 0.0, op)
    return _correlation(x, _met(op, chosen), (1,) * len(chosen), [p.apart for p in chosen], op)


def _met(op: Convolve, chosen: Sequence[Phase]) -> Op:
    """The taps that a phase meets, the last one first."""
    shape = tensor_type(op.w).shape
    starts = (*(p.tap for p in chosen), 0, 0)
    stops = (*(p.tap + p.every * (p.taps - 1) + 1 for p in chosen), *shape[len(chosen) :])
    w = Slice(op.w, starts, stops, (*(p.every for p in chosen), 1, 1), loc=op.loc)
    turned = tuple(i for i, p in enumerate(chosen) if p.taps > 1)
    return Flip(w, turned, loc=op.loc) if turned else w


def _around(op: Convolve, chosen: Sequence[Phase]) -> tuple[tuple[int, ...], tuple[Size, ...]]:
    """How far the windows of a phase lie before the input's first element and behind its last one."""
    ends = [_around_dim(p, size) for p, size in zip(chosen, tensor_type(op.x).shape[1:-1], strict=True)]
    return tuple(n for n, _ in ends), tuple(n for _, n in ends)


def _around_dim(p: Phase, size: Size) -> tuple[int, Size]:
    return -p.begin, p.begin + p.count + (p.taps - 1) * p.apart - size
