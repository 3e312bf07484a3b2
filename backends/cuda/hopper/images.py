"""Operands whose rows are the pixels of a convolution, as the copy engine walks images by itself (its im2col mode).

CUDA Driver API, cuTensorMapEncodeIm2col, gives what corners and steps can be; PTX ISA, "Im2col mode", what a tap can be.
"""

from __future__ import annotations

from dataclasses import dataclass

from portakern.backend import Pixels
from portakern.dtypes import DTYPES
from portakern.ir import tile as t
from portakern.ir.size import Size, divides

_CORNERS = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}
"""Spatial dims -> how far corners may lie before the first or the last pixel; they lie less far behind."""
_TAPS = {1: 1 << 16, 2: 1 << 8, 3: 1 << 5}
"""Spatial dims -> below which the places of taps are."""
_MOST_STEP = 8

Walk = tuple[Pixels, tuple[t.Term | None, ...]]


def walked_pixels(load: t.Load, kernel: t.Kernel) -> Walk:
    """How the rows of ``load`` walk its array [image, *spatial, channel], and which term of each spatial index is the tap."""
    found = _walk(load, kernel)
    assert not isinstance(found, str), found
    return found


def obstacle_to_pixels(load: t.Load, kernel: t.Kernel) -> str:
    """Why the copy engine cannot walk the pixels that ``load`` takes; empty where it can."""
    found = _walk(load, kernel)
    return found if isinstance(found, str) else ""


def _walk(load: t.Load, kernel: t.Kernel) -> Walk | str:
    have, name = t.buffer_type(load.buffer), str(getattr(load.buffer, "name", "array"))
    spatial = len(have.shape) - 2
    (row, _), *others = load.dims
    granule = 16 // DTYPES[have.dtype].bytes
    if spatial not in _CORNERS or load.indices[-1].plain is None or [load.indices[-1].plain] != [a for a, _ in others]:
        return f"{name} is no array of images with their channels last"
    if have.align % 16 or have.element_strides[-1] != 1 or not all(divides(granule, s) for s in have.element_strides[:-1]):
        return f"pixels of {name} do not begin at multiples of 16 bytes"
    if any(not isinstance(n, int) or n < 1 for n in have.shape[1:]):
        return f"the pixels of {name} are not counted before it runs"
    if not _counts_images(load.indices[0], row):
        return f"{name} is not read image by image"
    corners: list[tuple[int, int, int]] = []
    taps: list[t.Term | None] = []
    for index, size in zip(load.indices[1:-1], have.shape[1:-1], strict=True):
        along = [x for x in index.terms if x.axis == row]
        tap = [x for x in index.terms if x.axis != row]
        known = all(isinstance(x.scale, int) and x.scale > 0 for x in index.terms) and isinstance(index.offset, int)
        if len(along) > 1 or len(tap) > 1 or not known or any(kernel.axis[x.axis].tile != 1 for x in tap):
            return f"{name} is read at {index}"
        positions = _positions(along[0], kernel) if along else 1
        step = int(along[0].scale) if along else 1  # type: ignore[arg-type]
        reach = int(tap[0].scale) * (int(kernel.axis[tap[0].axis].extent) - 1) if tap else 0  # type: ignore[arg-type]
        lower = int(index.offset)  # type: ignore[arg-type]
        upper = lower + step * (positions - 1) - (int(size) - 1)  # type: ignore[arg-type]
        far, last = _CORNERS[spatial], _TAPS[spatial]
        if positions < 1 or step > _MOST_STEP or reach >= last or not all(-far <= x < far for x in (lower, upper)):
            return f"windows of {name} step or reach farther than the copy engine does"
        corners.append((lower, upper, step))
        taps.append(tap[0] if tap else None)
    lower, upper, steps = zip(*corners, strict=True)
    return Pixels(lower, upper, steps), tuple(taps)


def _counts_images(index: t.Index, row: str) -> bool:
    """Whether ``index`` is an image's number: that of the row, or one outside of its tile."""
    if index == t.Index() or (index.plain is not None and index.plain != row):
        return True
    (term, *more) = index.terms or (t.Term(""),)
    return not more and (term.axis, term.scale, term.mod, index.offset) == (row, 1, 0, 0)


def _positions(term: t.Term, kernel: t.Kernel) -> int:
    """How many windows there are along a dim; 0 where that is not known."""
    if term.mod:
        return term.mod
    extent = kernel.axis[term.axis].extent
    return extent // term.div if isinstance(extent, int) else 0


# ---- results -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PixelsWritten:
    """The pixels of an array of images that a result is written to: the array from its element ``offset`` on, as the images
    that these pixels make, and how many they are along each spatial dim."""

    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: int
    positions: tuple[int, ...]


def written_pixels(store: t.Store, row: str) -> PixelsWritten | str:
    """What ``store`` writes, whose rows along ``row`` are pixels, or why the copy engine cannot."""
    have, name = t.buffer_type(store.buffer), str(getattr(store.buffer, "name", "array"))
    spatial, granule = len(have.shape) - 2, 16 // DTYPES[have.dtype].bytes
    if spatial not in _CORNERS or store.indices[-1].plain in (None, row) or have.align % 16 or have.element_strides[-1] != 1:
        return f"{name} is no array of images with their channels last"
    inner, offset = 1, 0
    positions: list[int] = []
    strides: list[Size] = [1]
    for index, stride in reversed([*zip(store.indices, have.element_strides, strict=True)][1:-1]):
        term, *more = index.terms or (t.Term(""),)
        known = isinstance(stride, int) and isinstance(term.scale, int) and isinstance(index.offset, int)
        if more or not known or (term.axis, term.div) != (row, inner) or not term.mod:
            return f"{name} is written at {index}"
        positions.insert(0, term.mod)
        strides.insert(0, int(stride) * int(term.scale))  # type: ignore[arg-type]
        offset += int(index.offset) * int(stride)  # type: ignore[arg-type]
        inner *= term.mod
    if store.indices[0] != t.Index((t.Term(row, 1, inner),)):
        return f"{name} is not written image by image"
    strides.insert(0, have.element_strides[0])
    if not all(divides(granule, n) for n in (offset, *strides[:-1])):
        return f"pixels of {name} do not begin at multiples of 16 bytes"
    return PixelsWritten((have.shape[0], *positions, have.shape[-1]), tuple(strides), offset, tuple(positions))
