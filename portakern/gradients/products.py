"""Products and convolutions: the gradient of an operand is the product of the result's with the other operand.

Matrix units multiply operands of one dtype, so the gradient of a product is rounded to that of its operands, and theirs is
summed as the product itself is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.gradients.rules import Contributions, Walk, refusal, rule
from portakern.ir import tensor as t
from portakern.ir.core import Op
from portakern.ir.size import Size, quotient
from portakern.ir.tensor import tensor_type
from portakern.spec import elementwise as ew
from portakern.spec import pieces, segments, views
from portakern.spec.traced import Traced, make


def _as_operand(g: Traced, op: Op) -> Traced:
    return ew.cast(g, tensor_type(op).dtype)


@rule(t.Contract)
def _(op: t.Contract, g: Traced, walk: Walk) -> Contributions:
    n, m = len(op.lhs_batch), len(op.lhs_batch) + len(op.lhs_free)
    batch, lhs_free, rhs_free = tuple(range(n)), tuple(range(n, m)), tuple(range(m, g.ndim))
    g = _as_operand(g, op.lhs)
    left = _Operand(op.lhs, op.lhs_batch, op.lhs_axes, op.lhs_free)
    right = _Operand(op.rhs, op.rhs_batch, op.rhs_axes, op.rhs_free)
    if walk.active(op.lhs):
        yield op.lhs, _of_operand(op, left, _Operand(g.op, batch, lhs_free, rhs_free), right)
    if walk.active(op.rhs):
        yield op.rhs, _of_operand(op, right, _Operand(g.op, batch, rhs_free, lhs_free), left)


@dataclass(frozen=True)
class _Operand:
    """An operand of a product: its batch dims, those that it pairs with the other's, and those of its own."""

    op: Op
    batch: tuple[int, ...]
    paired: tuple[int, ...]
    own: tuple[int, ...]


def _of_operand(op: t.Contract, mine: _Operand, g: _Operand, other: _Operand) -> Traced:
    """The gradient of ``mine``: ``g``, whose ``paired`` dims are those that ``mine`` has alone, times ``other`` over the dims
    that ``other`` has alone; in the order of operands that leaves the fewest dims to be moved."""
    ends = sorted(range(len(mine.paired)), key=lambda i: other.paired[i])  # in which the product has them
    paired = tuple(mine.paired[i] for i in ends)
    if (*mine.batch, *mine.own, *paired) == tuple(sorted((*mine.batch, *mine.own, *paired))):
        made = t.Contract(g.op, other.op, g.batch, other.batch, g.own, other.own, op.dtype, op.precision)
        dims = (*mine.batch, *mine.own, *paired)
    else:
        made = t.Contract(other.op, g.op, other.batch, g.batch, other.own, g.own, op.dtype, op.precision)
        dims = (*mine.batch, *paired, *mine.own)
    return _as_operand(views.transpose(make(made), *(dims.index(d) for d in range(len(dims)))), mine.op)


@rule(t.SegmentContract)
def _(op: t.SegmentContract, g: Traced, walk: Walk) -> Contributions:
    x, w, offsets = Traced(op.lhs), Traced(op.rhs), Traced(op.groups)
    if op.by_rows:
        raise refusal(op, "groups are given by rows, as kernels see them", "use pk.grouped_matmul")
    g = _as_operand(g, op.lhs)
    if walk.active(op.lhs):
        turned = views.transpose(w, 0, 2, 1)
        yield op.lhs, _as_operand(make(t.SegmentContract(g.op, turned.op, op.groups, op.dtype, op.precision)), op.lhs)
    if walk.active(op.rhs):
        x, g = ew.cast(x, op.dtype), ew.cast(g, op.dtype)
        outer = views.expand_dims(x, 2) * views.expand_dims(g, 1)
        yield op.rhs, _as_operand(segments.segment_sum(outer, offsets), op.rhs)


# ---- convolutions ---------------------------------------------------------------------------------------------------------


@rule(t.Convolve)
def _(op: t.Convolve, g: Traced, walk: Walk) -> Contributions:
    g = _as_operand(g, op.x)
    if walk.active(op.x):
        yield op.x, _as_operand(_of_image(op, g), op.x)
    if walk.active(op.w):
        yield op.w, _as_operand(_of_filter(op, g), op.w)


def _of_image(op: t.Convolve, g: Traced) -> Traced:
    """The convolution the other way: transposed for a plain one, plain for a transposed one."""
    w, shape = _turned(op), tensor_type(op.x).shape
    spatial = range(tensor_type(op.x).rank - 2)
    if op.transposed:
        around = pieced(g, [(0, 0), *zip(op.low, op.high, strict=True), (0, 0)])
        zeros = (0,) * len(spatial)
        return make(t.Convolve(around.op, w.op, op.strides, zeros, zeros, op.dilation, op.groups, op.dtype))
    reach = [op.dilation[i] * (tensor_type(op.w).shape[i] - 1) + 1 for i in spatial]
    high = [_high(op, i, (g.shape[1 + i] - 1) * op.strides[i] + reach[i] - op.low[i] - shape[1 + i]) for i in spatial]
    made = make(t.Convolve(g.op, w.op, op.strides, op.low, tuple(max(h, 0) for h in high), op.dilation, op.groups, op.dtype,
                           True))  # fmt: skip
    longer = pieced(made, [(0, 0), *((0, max(-h, 0)) for h in high), (0, 0)])  # what no window reaches
    return longer if longer.shape == shape else longer[tuple(slice(0, n) for n in shape)]


def _high(op: t.Convolve, i: int, high: Size) -> int:
    """What is cut off after spatial dim ``i``; where that is open, as little as leaves too many elements."""
    return high if isinstance(high, int) else op.high[i] - (op.strides[i] - 1)


def _turned(op: t.Convolve) -> Traced:
    """w [*window, C / groups, O] as [*window, O / groups, C], the filters of the other direction."""
    w = Traced(op.w)
    n, (channels, outputs) = w.ndim - 2, w.shape[-2:]
    window = tuple(range(n))
    if op.groups == 1:
        return views.transpose(w, *window, n + 1, n)
    part = quotient(outputs, op.groups)
    if part is None:
        raise refusal(op, f"{outputs} outputs in {op.groups} groups", "build it for given sizes")
    split = views.reshape(w, (*w.shape[:n], channels, op.groups, part))
    turned = views.transpose(split, *window, n + 2, n + 1, n)
    return views.reshape(turned, (*w.shape[:n], part, channels * op.groups))


def _of_filter(op: t.Convolve, g: Traced) -> Traced:
    """Windows of the larger image times the smaller one, summed over all positions: [*window, C / groups, O]."""
    image, positions = (g, Traced(op.x)) if op.transposed else (Traced(op.x), g)
    n, window = image.ndim - 2, tensor_type(op.w).shape[:-2]
    around = pieced(image, [(0, 0), *zip(op.low, op.high, strict=True), (0, 0)])
    seen = make(t.Windows(_grouped(around, op).op, tuple(range(1, n + 1)), window, op.strides, op.dilation))  # type: ignore
    met = _grouped(positions, op)
    over = tuple(range(n + 1))
    batch = (n + 1,) if op.groups != 1 else ()
    made = make(t.Contract(seen.op, met.op, batch, batch, over, over, op.dtype, "ieee"))
    # [groups, channels of the image, *window, channels of the positions]
    k = len(batch)
    taps, own, other = tuple(range(k + 1, k + 1 + n)), k, k + 1 + n
    first, last = (other, own) if op.transposed else (own, other)
    turned = views.transpose(made, *taps, first, *range(k), last)
    return views.reshape(turned, tensor_type(op.w).shape)


def _grouped(x: Traced, op: t.Convolve) -> Traced:
    """[N, *spatial, C] as [N, *spatial, groups, C / groups]; as it is where there is one group."""
    if op.groups == 1:
        return x
    part = quotient(x.shape[-1], op.groups)
    if part is None:
        raise refusal(op, f"{x.shape[-1]} channels in {op.groups} groups", "build it for given sizes")
    return views.reshape(x, (*x.shape[:-1], op.groups, part))


def pieced(x: Traced, widths: Sequence[tuple[int, int]]) -> Traced:
    """``x`` with zeros before and after each dim, or without as many elements where a width is negative."""
    keys = tuple(slice(max(-a, 0), None if b >= 0 else x.shape[d] + b) for d, (a, b) in enumerate(widths))
    kept = views.getitem(x, keys) if any(n < 0 for width in widths for n in width) else x
    added = [(max(a, 0), max(b, 0)) for a, b in widths]
    return pieces.pad(kept, added) if any(n for width in added for n in width) else kept
