"""Loads of windows: a block holds all that the windows of its positions reach, and each tap takes a slice of it.

Windows overlap, so blocks are placed by elements (``pl.Element``) wherever the grid walks positions; the host pads what the
last block lacks.  Where taps and channels are one axis over rows of pixels (``C * position + tap``), the array is seen with
its channels as a dim of their own, and neighbouring slices are put side by side along the lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm

from portakern.dtypes import dtype as known
from portakern.ir.core import Arg
from portakern.ir.size import Size, ceildiv, divides
from portakern.ir.tile import Index, Kernel, Load, Term, buffer_type

from ..syntax.expressions import BlockAxes
from .blocks import LANES, SUBLANES, BlockAccess, DimSlice, Span, View, is_legal
from .loops import ReportMissing
from .taps import TapLoop


@dataclass(frozen=True)
class WindowDim:
    """One dim of a block, and what a tap takes of it: one element, or those of all positions of ``span``.

    The first is at ``first`` plus the sum over ``taps`` of their scales times how far they have gone, ``step`` elements
    apart; ``beside`` neighbours of each lie side by side along the lanes.  ``elements`` is the size of the block, which has
    whole steps.
    """

    span: Span | None
    size: Size
    elements: int | None  # None: squeezed
    entry: str | Index
    first: int = 0
    taps: tuple[tuple[str, int], ...] = ()
    step: int = 1
    beside: int = 1
    by_element: bool = False
    missing: Size = 0  # elements that the last block reaches beyond the array

    @property
    def axis(self) -> str | None:
        return self.span.axis.name if self.span is not None else None


def is_windowed(kernel: Kernel, op: Load) -> bool:
    """Whether ``op`` reads along the taps of windows."""
    ways = {x.axis for x in kernel.body.walk() if isinstance(x, TapLoop)}
    return any(len(i.terms) > 1 or ways & set(i.axes) for i in op.indices)


def window_access(kernel: Kernel, op: Load, spans: Mapping[str, Span], report: ReportMissing,
                  outer: str = "") -> BlockAccess | None:
    """The block of ``op``; ``None`` (after a report) where there is no rule for it.  A block has several rows of ``outer``."""
    assert isinstance(op.buffer, Arg)
    have, name = buffer_type(op.buffer), op.buffer.name
    ways = {x.axis for x in kernel.body.walk() if isinstance(x, TapLoop)}
    tiled = (*(a for a, _ in op.dims), *([outer] if outer else []))
    found: list[WindowDim] = []
    slices: list[DimSlice | None] = []
    for index, size in zip(op.indices, have.shape, strict=True):
        mirrored = _mirrored(index, size, tiled)
        parts = _dims(kernel, mirrored or index, size, tiled, ways, spans)
        if parts is None:
            report(f"the index {index} of {name} on a tiled axis", op, "")
            return None
        found += parts
        slices += [DimSlice(size - 1, size, -1)] if mirrored else [None] * len(parts)
    shape = tuple(d.size for d in found)
    order = _order(found)
    place = _place(found, order)
    if {a for a in place if a} != {a for a, _ in op.dims}:
        report(f"windows of {name} along more than two axes of a tile", op, "tiles of 1 along the others")
        return None
    dims = [found[d] for d in order]
    lone = sum(d.axis is not None for d in dims)
    unit = WindowDim(None, 1, 1, Index())
    if lone < 2:
        at = len(dims) - lone if lone == 0 or place[1] is not None else len(dims)
        dims[at:at] = [unit] * (2 - lone)
    placed = _aligned(dims, have.dtype, spans)
    if placed is None:
        report(f"windows of {name} that begin inside a native tile", op, "a tile that covers the axis")
        return None
    by_element = any(d.by_element for d in placed)
    block = tuple(None if d.elements is None else f"pl.Element({d.elements})" if by_element else _text(d) for d in placed)
    view = View(shape, tuple(slices), tuple(order), tuple(d.size for d in placed))
    return BlockAccess(name, have.dtype, False, op.indices, place, view, block, tuple(d.entry for d in placed),
                       window=tuple(placed), grouped=len([d for d in placed if d.axis is not None]) > 2)  # fmt: skip


def _mirrored(index: Index, size: Size, tiled: Sequence[str]) -> Index | None:
    """``index`` in a dim that is turned around, where a tile lies along it backwards."""
    along = [t for t in index.terms if t.axis in tiled]
    if len(along) != 1 or index.gather >= 0 or not isinstance(along[0].scale, int) or along[0].scale >= 0:
        return None
    return Index(tuple(replace(t, scale=-t.scale) for t in index.terms), size - 1 - index.offset)


def _text(dim: WindowDim) -> str:
    return dim.span.text if dim.span is not None and dim.entry == dim.axis else str(dim.elements)


def _dims(kernel: Kernel, index: Index, size: Size, tiled: Sequence[str], ways: set[str],
          spans: Mapping[str, Span]) -> list[WindowDim] | None:  # fmt: skip
    """The dims of a block that a dim of the array becomes: two where its index joins positions and channels."""
    if index.gather >= 0 or any((t.div, t.mod) != (1, 0) or not isinstance(t.scale, int) for t in index.terms):
        return None
    along = [t for t in index.terms if t.axis in tiled]
    taps = tuple((t.axis, int(t.scale)) for t in index.terms if t.axis in ways)  # type: ignore[arg-type]
    walked = tuple(t for t in index.terms if t.axis not in tiled and t.axis not in ways)
    if len(along) == 2 and not taps and not walked:
        return _channels(kernel, index, along, size, spans)
    if len(along) > 1 or (along and walked) or not isinstance(index.offset, int):
        return None
    if along:
        dim = _positions(kernel, along[0], index.offset, taps, size, spans)
        return [dim] if dim else None
    if not taps:
        return [WindowDim(None, size, None, index)]
    low, high = _reach(kernel, taps)
    if not walked:
        return [WindowDim(None, size, int(size), Index(), index.offset, taps)] if isinstance(size, int) else None
    start = Index(walked, index.offset + low)
    return [WindowDim(None, size, high - low + 1, start, -low, taps, by_element=True)]


def _reach(kernel: Kernel, taps: Sequence[tuple[str, int]]) -> tuple[int, int]:
    ends = [scale * (int(kernel.axis[a].extent) - 1) for a, scale in taps]  # type: ignore[arg-type]
    return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends)


def _positions(kernel: Kernel, term: Term, offset: int, taps: tuple[tuple[str, int], ...], size: Size,
               spans: Mapping[str, Span], beside: int = 1) -> WindowDim | None:  # fmt: skip
    """The dim along which the positions of a tile lie."""
    span, scale = spans[term.axis], int(term.scale)  # type: ignore[arg-type]
    if scale < 1:
        return None
    low, high = _reach(kernel, taps)
    reached = scale * ((offset + high + beside - 1) // scale + span.size)
    if (offset, scale, taps, beside, size) == (0, 1, (), 1, span.axis.extent):
        return WindowDim(span, size, span.size, term.axis)
    if span.dim is None:
        if not isinstance(size, int):
            return None
        return WindowDim(span, size, -(-max(size, reached) // scale) * scale, Index(), offset, taps, scale, beside)
    if offset + low < 0:
        return None
    start = Index((Term(term.axis, scale * span.size),))
    return WindowDim(span, size, reached, start, offset, taps, scale, beside, by_element=True)


def _channels(kernel: Kernel, index: Index, along: Sequence[Term], size: Size,
              spans: Mapping[str, Span]) -> list[WindowDim] | None:  # fmt: skip
    """Positions ``g * s`` elements apart whose windows are some ``g`` elements long: rows of positions of ``g`` channels."""
    may = [t for t in along if t.scale == 1 and spans[t.axis].dim is None]
    # Both may where there is one channel: the positions are the rows then, as they are with several.
    inner = next((t for t in may if kernel.axis[t.axis].kind != "grid"), may[0] if may else None)
    outer = next((t for t in along if t is not inner), None)
    if inner is None or outer is None or not isinstance(index.offset, int):
        return None
    length = kernel.axis[inner.axis].extent
    if not isinstance(length, int) or not isinstance(outer.scale, int) or outer.scale < 1:
        return None
    channels = gcd(outer.scale, length, index.offset, size if isinstance(size, int) else 0)
    if not divides(channels, size):
        return None
    place = Term(outer.axis, outer.scale // channels)
    rows = _positions(kernel, place, index.offset // channels, (), size // channels, spans, length // channels)
    return [rows, WindowDim(spans[inner.axis], channels, channels, Index())] if rows is not None else None


def _order(dims: Sequence[WindowDim]) -> list[int]:
    """The dims of the array in the order of the block: walked ones first, then rows, then lanes, which have no steps."""
    first = [n for n, d in enumerate(dims) if d.axis is None]
    rows = [n for n, d in enumerate(dims) if d.axis is not None]
    if len(rows) == 2 and dims[rows[1]].step > 1 and dims[rows[0]].step == 1 and dims[rows[0]].beside == 1:
        rows.reverse()
    return [*first, *rows]


def _place(dims: Sequence[WindowDim], order: Sequence[int]) -> BlockAxes:
    axes = [dims[n].axis for n in order if dims[n].axis is not None]
    if len(axes) >= 2:
        return axes[-2], axes[-1]
    if not axes:
        return None, None
    stepped = any(d.axis is not None and d.step > 1 for d in dims)
    return (axes[0], None) if stepped else (None, axes[0])


def _aligned(dims: Sequence[WindowDim], dtype: str, spans: Mapping[str, Span]) -> list[WindowDim] | None:
    """``dims`` with blocks that Mosaic takes, the last two as whole native tiles, and with what the array lacks for the last
    of them; ``None`` where a block would begin inside a native tile."""
    packed = SUBLANES * max(1, 4 // known(dtype).bytes)
    by_element = any(d.by_element for d in dims)
    found = []
    if dims[-1].step > 1:
        return None
    for n, d in enumerate(dims):
        unit = {len(dims) - 2: packed, len(dims) - 1: LANES}.get(n, 1)
        whole_blocks = {len(dims) - 2: SUBLANES, len(dims) - 1: LANES}.get(n, 1)
        if d.elements is None:
            found.append(d)
            continue
        if not d.by_element and isinstance(d.entry, str) and by_element and spans[d.entry].dim is not None:
            d = replace(d, entry=Index((Term(d.entry, d.elements),)), by_element=True)
        if d.by_element and unit > 1:
            if not all(isinstance(t.scale, int) and t.scale % unit == 0 for t in d.entry.terms):  # type: ignore[union-attr]
                return None
            whole = lcm(unit, d.step)
            d = replace(d, elements=-(-d.elements // whole) * whole)  # type: ignore[operator]
        elif d.elements is not None and isinstance(d.entry, str) and not is_legal(d.elements, d.size, whole_blocks):
            return None
        found.append(replace(d, missing=_missing(d, spans)))
    return found


def _missing(dim: WindowDim, spans: Mapping[str, Span]) -> Size:
    """How many elements the last block reaches past the array."""
    if not isinstance(dim.entry, Index) or not isinstance(dim.entry.offset, int) or dim.elements is None:
        return 0
    end: Size = dim.entry.offset + dim.elements
    for t in dim.entry.terms:
        span = spans[t.axis]
        end = end + (ceildiv(span.axis.extent, span.size) - 1) * t.scale
    lacking = end - dim.size
    return max(lacking, 0) if isinstance(lacking, int) else lacking
