"""Buffers as blocks: how each load and store of a kernel becomes a view made on the host and a ``pl.BlockSpec``.

Mosaic takes a block whose last two dims are multiples of (8, 128) or the array's full extents.  So the axes that give a
tile its dims are moved last, axes walked one element at a time go in front (squeezed away by ``None``), and a tile with
one dim gets a dim of one element beside it.  An array of one dim stays one where its blocks are legal, since XLA lays out
one dim unlike two and would copy it.  Most views are free: only a squeezed axis between tiled ones costs a transposition,
which the host does once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import TYPE_CHECKING

from portakern.ir.core import Arg, Op
from portakern.ir.size import Size, ceildiv, divides, evaluate, product
from portakern.ir.tile import Axis, BufferType, Index, Kernel, Load, Store, buffer_type, tile_type

from ..syntax.expressions import BlockAxes
from .loops import ReportMissing

if TYPE_CHECKING:
    from .windows import WindowDim

SUBLANES, LANES = 8, 128

_PACKED = {"f32": 1, "i32": 1, "bf16": 2}
"""Elements in 32 bits, for the dtypes of which arrays of one dim are taken as they are."""


@dataclass(frozen=True)
class Span:
    """An axis as the kernel sees it: ``size`` elements per block (``text`` in the source), walked by the grid dim
    ``dim`` (``None``: a single block)."""

    axis: Axis
    size: int
    text: str
    dim: str | None
    begin: str = ""  # of a part of the block

    @property
    def ragged(self) -> bool:
        """Whether the last block reaches past the extent, so that part of it holds garbage."""
        if self.axis.extent == 0:
            return True
        return self.axis.tile > 1 and self.size != self.axis.extent and not divides(self.size, self.axis.extent)

    @property
    def start(self) -> str:
        """The first coordinate of the current block."""
        if self.begin or self.dim is None:
            return self.begin or "0"
        return self.dim if self.size == 1 else f"{self.dim} * {self.text}"

    @property
    def last(self) -> str:
        """The number of the last block."""
        steps = ceildiv(self.axis.extent, self.size)
        if isinstance(steps, int):
            return str(max(steps - 1, 0))
        return f"pl.cdiv({self.axis.extent}, {self.text}) - 1" if self.size > 1 else f"{self.axis.extent} - 1"


def block_size(axis: Axis) -> int:
    """Elements of a block along ``axis``: the whole extent where a tile covers it, since that is always legal."""
    if axis.tile > 1 and isinstance(axis.extent, int) and axis.extent <= axis.tile:
        return max(axis.extent, 1)
    return axis.tile


@dataclass(frozen=True)
class DimSlice:
    """The part of a dim that an axis runs over: ``length`` elements from ``start``, ``step`` apart (below 0: backwards)."""

    start: Size
    length: Size
    step: int

    def __str__(self) -> str:
        """Its elements in the order of the dim."""
        far = self.start + (self.length - 1) * self.step
        first, last = (far, self.start) if self.step < 0 else (self.start, far)
        return f"{first}:{last + 1}" + (f":{abs(self.step)}" if abs(self.step) > 1 else "")


@dataclass(frozen=True)
class View:
    """What the host does to an array before (and undoes after) a kernel: cut, transpose, reshape."""

    shape: tuple[Size, ...]  # as the kernel's argument has it
    slices: tuple[DimSlice | None, ...]
    order: tuple[int, ...]
    final: tuple[Size, ...]

    @property
    def moved(self) -> bool:
        return self.order != tuple(range(len(self.order)))


@dataclass(frozen=True)
class Frame:
    """What lies around ``array`` in the buffer that a kernel reads: the kernel itself puts it around its block.

    ``around`` has the elements before and after those of the array for every dim of the buffer.
    """

    array: str
    shape: tuple[Size, ...]
    around: tuple[tuple[Size, Size], ...]
    fill: float | int | bool


@dataclass(frozen=True)
class Cut:
    """``count`` elements from ``first`` on of every line of ``array``, whose blocks have whole lines of ``line`` elements."""

    array: str
    first: int
    count: int
    line: int

    @property
    def index(self) -> str:
        end = self.first + self.count
        return f"{self.first or ''}:{end if end != self.line else ''}"


@dataclass(frozen=True)
class BlockAccess:
    """One way in which a kernel reads or writes a buffer.

    ``place`` is the place of the block in the kernel, ``block`` its sizes (``None``: squeezed), ``entries`` what the
    index map gives per dim: an axis whose block is meant, or an index expression of elements.  ``window`` says of a block that
    windows are read from what a tap takes of each dim; ``grouped`` that blocks have a dim more than values, whose rows are in
    both; ``inside`` is what the kernel puts around the block; ``cut`` is what it takes of one with whole lines.
    """

    buffer: str
    dtype: str
    write: bool
    indices: tuple[Index, ...]
    place: BlockAxes
    view: View
    block: tuple[str | None, ...]
    entries: tuple[str | Index, ...]
    phases: tuple[int, ...] = ()
    window: tuple[WindowDim, ...] = ()
    grouped: bool = False
    inside: Frame | None = None
    gathers: tuple[Op, ...] = ()
    cut: Cut | None = None

    @property
    def source(self) -> str:
        """The array that is passed to the kernel."""
        return self.inside.array if self.inside is not None else self.cut.array if self.cut is not None else self.buffer

    @property
    def passed(self) -> tuple[object, ...]:
        """What those have in common that share a reference: taps of windows may begin elsewhere in one block."""
        window = tuple(replace(d, first=0) for d in self.window)
        return self.source, self.write, self.view, self.block, self.entries, self.phases, window, self.inside, self.gathers, (
            None if window or self.cut is not None else self.indices)  # fmt: skip

    @property
    def flat(self) -> bool:
        """Whether the array and its blocks have one dim."""
        return len(self.block) == 1


def access_of(kernel: Kernel, op: Load | Store, spans: Mapping[str, Span], report: ReportMissing,
              outer: str = "", cut: Cut | None = None) -> BlockAccess | None:  # fmt: skip
    """The blocks ``op`` touches; ``None`` (after a report) where there is no rule for it.  ``outer`` is the axis of which
    a block has several rows, if there is one: it lies before the rows and columns of the block.  ``cut`` says that blocks have
    whole lines, of which ``op`` means a part."""
    buffer = op.buffer
    assert isinstance(buffer, Arg)
    have = buffer_type(buffer)
    if not _supported(kernel, op, have, report):
        return None
    dims = tuple(a for a, _ in (tile_type(op.value).dims if isinstance(op, Store) else op.dims))
    tiled = [_tiled_axis(index, dims) for index in op.indices]
    for index in op.indices:
        walked_out = [a for a in index.axes if a not in dims and a in kernel.may_overrun(op)]
        if walked_out:
            report(f"the index {index} of {buffer.name}, which may reach outside", op, "")
            return None
    sizes = have.shape if cut is None else (*have.shape[:-1], cut.line)
    slices = [_dim_slice(index, size, kernel.axis[a]) if a else None
              for index, size, a in zip(op.indices, sizes, tiled, strict=True)]  # fmt: skip
    if cut is not None:
        slices[-1] = None
    begins = _begins(slices, sizes, [d for d, a in enumerate(tiled) if a], tiled, spans)
    slices = [None if d in begins else c for d, c in enumerate(slices)]
    shape = tuple(c.length if c else size for c, size in zip(slices, sizes, strict=True))
    walked = [d for d, a in enumerate(tiled) if a is None]
    blocked = [d for d, a in enumerate(tiled) if a is not None]
    place = _place([tiled[d] or "" for d in blocked], [shape[d] for d in blocked], spans)
    # A dim of one element that is there already can stand beside a single tiled dim.
    kept = [d for d in walked if shape[d] != 1]
    lines = cut.line if cut is not None else spans[tiled[blocked[-1]] or ""].size if blocked else 0
    beside = _beside(op, kept, blocked, shape, lines)
    kept = [d for d in kept if d not in beside]
    final: list[Size] = [shape[d] for d in kept]
    several = [bool(outer) and outer in op.indices[d].axes for d in kept]
    block: list[str | None] = [spans[outer].text if rows else None for rows in several]
    entries: list[str | Index] = [outer if rows else op.indices[d] for d, rows in zip(kept, several, strict=True)]
    lone = tiled[blocked[0]] if len(blocked) == 1 and not kept else None
    flat = lone is not None and cut is None and _legal_flat(spans[lone].size, shape[blocked[0]], have.dtype)
    if lone and flat:
        place, final = (None, lone), [shape[blocked[0]]]
        block[:], entries[:] = [spans[lone].text], [lone]
    for side in () if flat else (0, 1):
        axis = place[side]
        together = (*(beside if side else ()), tiled.index(axis)) if axis else ()
        final.append(product(tuple(shape[d] for d in together)))
        whole = cut is not None and side == 1
        block.append(str(lines) if whole else spans[axis].text if axis else "1")
        counted = _counted([op.indices[d] for d in beside], [shape[d] for d in beside])
        begin = begins.get(tiled.index(axis), 0) if axis else 0
        first = Index() if whole else replace(Index.of(axis), offset=begin) if axis and begin else axis or Index()
        entries.append(counted if side and beside else first)
        if axis and not is_legal(lines if whole else spans[axis].size, final[-1], (SUBLANES, LANES)[side]):
            report(f"blocks of {spans[axis].size} along {axis}, {'rows' if side == 0 else 'columns'} of {buffer.name} "
                   f"with {final[-1]} elements", op,
                   f"a tile that is a multiple of {(SUBLANES, LANES)[side]} or covers the axis")
    # Dims of one element have no order of their own; they are left where they are and vanish in the reshape.
    order = (*(d for d in walked if d not in (*kept, *beside)), *kept, *blocked[:-1], *beside, *blocked[-1:])
    real = [d for d in order if shape[d] != 1]
    if real == sorted(real):
        order = tuple(range(len(shape)))
    if isinstance(op, Store) and any(c and not _flipped(c, size) for c, size in zip(slices, sizes, strict=True)):
        report(f"a store to part of {buffer.name}", op, "")
    return BlockAccess(buffer.name, have.dtype, isinstance(op, Store), op.indices, place,
                       View(sizes, tuple(slices), order, tuple(final)), tuple(block), tuple(entries), grouped=any(several),
                       gathers=op.gathers if isinstance(op, Load) else (), cut=cut)  # fmt: skip


def _begins(slices: Sequence[DimSlice | None], sizes: Sequence[Size], blocked: Sequence[int], tiled: Sequence[str | None],
            spans: Mapping[str, Span]) -> dict[int, int]:  # fmt: skip
    """Dims of which a part is meant that is whole blocks, which nobody has to cut out: the number of its first block."""
    found: dict[int, int] = {}
    for d, unit in zip(blocked, (SUBLANES, LANES), strict=False) if len(blocked) == 2 else ():
        part, size, axis = slices[d], sizes[d], tiled[d]
        if part is None or axis is None or part.step != 1 or not (isinstance(part.start, int) and isinstance(part.length, int)):
            continue
        block = spans[axis].size
        if isinstance(size, int) and block and part.start % block == part.length % block == 0 and is_legal(block, size, unit):
            found[d] = part.start // block
    return found


def _beside(op: Load | Store, kept: Sequence[int], blocked: Sequence[int], shape: Sequence[Size], lines: int) -> list[int]:
    """Walked dims that lie between rows and columns, where blocks of columns are all of a dim, ``lines``, and whole rows of
    lanes: these are counted through both then, as in ``[rows, heads * width]``, and nobody has to transpose."""
    if len(blocked) != 2:
        return []
    row, col = blocked
    between = [d for d in range(row + 1, col) if shape[d] != 1]
    if not between or any(d not in kept for d in between):
        return []
    whole = all(isinstance(shape[d], int) for d in (*between, col)) and lines == shape[col] and lines % LANES == 0
    plain = all(op.indices[d].gather < 0 and all(isinstance(t.scale, int) for t in op.indices[d].terms) for d in between)
    return between if whole and plain and all(t.scale == 1 for t in op.indices[col].terms) else []


def _counted(indices: Sequence[Index], sizes: Sequence[Size]) -> Index:
    """The number of an element of dims that are counted together."""
    found = Index()
    for index, size in zip(indices, sizes, strict=True):
        terms = (*(replace(t, scale=t.scale * size) for t in found.terms), *index.terms)
        found = Index(terms, found.offset * size + index.offset)
    return found


def _supported(kernel: Kernel, op: Load | Store, have: BufferType, report: ReportMissing) -> bool:
    assert isinstance(op.buffer, Arg)
    name, before = op.buffer.name, True
    if isinstance(op, Store) and op.mode != "set":
        report(f"a store that {op.mode}s into {name}", op, "a schedule that does not split the reduction")
        before = False
    if isinstance(op, Load) and any(tile_type(g).dims for g in op.gathers):
        report(f"single elements picked from {name} by indices, which no instruction loads", op,
               "indices that pick whole rows; of one element of each line (pk.take_along with indices of 1 along the axis) a "
               "selection is made")
        return False
    dims = {a for a, _ in (tile_type(op.value).dims if isinstance(op, Store) else op.dims)}
    for index in op.indices:
        inside = [a for a in index.axes if a in dims]
        whole_steps = all(isinstance(t.scale, int) and t.scale != 0 and (t.div, t.mod) == (1, 0) for t in index.terms)
        if inside and (len(index.terms) > 1 or not whole_steps):
            report(f"the index {index} of {name} on a tiled axis", op, "")
            return False
    return before


def _tiled_axis(index: Index, dims: tuple[str, ...]) -> str | None:
    return next((a for a in index.axes if a in dims), None)


def _dim_slice(index: Index, size: Size, axis: Axis) -> DimSlice | None:
    """The part of a dim that an axis runs over, where it is not the whole dim in order."""
    scale = index.terms[0].scale
    assert isinstance(scale, int)
    if (index.offset, axis.extent, scale) == (0, size, 1):
        return None
    return DimSlice(index.offset, axis.extent, scale)


def _flipped(cut: DimSlice, size: Size) -> bool:
    """Whether all of a dim is meant, backwards."""
    return cut.step == -1 and cut.length == size and cut.start == size - 1


def _place(axes: list[str], extents: list[Size], spans: Mapping[str, Span]) -> BlockAxes:
    if len(axes) == 2:
        return axes[0], axes[1]
    if not axes:
        return None, None
    # A row is the compact form in memory; a column pads every element to a row of lanes.
    row = is_legal(spans[axes[0]].size, extents[0], LANES)
    return (None, axes[0]) if row else (axes[0], None)


def is_legal(size: int, extent: Size, unit: int) -> bool:
    return size % unit == 0 or size == extent or (extent == 0 and size == 1)


def _legal_flat(size: int, extent: Size, dtype: str) -> bool:
    """Whether Mosaic takes blocks of an array of one dim (the rank 1 rule of jax's mosaic/lowering.py)."""
    if dtype not in _PACKED or extent == 0:
        return False
    return size in (extent, size // (SUBLANES * LANES) * SUBLANES * LANES) or (
        size >= LANES * _PACKED[dtype] and size & (size - 1) == 0)


def host_view(name: str, access: BlockAccess, shape: tuple[Size, ...]) -> str:
    """The Python expression that gives an input, whose program shape is ``shape``, the form its blocks need."""
    view, text = access.view, name
    plain = not view.moved and not any(view.slices)
    if plain:
        return text if view.final == shape else f"{text}.reshape({shape_text(view.final)})"
    if view.shape != shape:
        text = f"{text}.reshape({shape_text(view.shape)})"
    if any(view.slices):
        parts = [":" if c is None or (c.step == -1 and c.length == size) else str(c)
                 for c, size in zip(view.slices, view.shape, strict=True)]
        text = f"{text}[{', '.join(parts)}]" if set(parts) != {":"} else text
        if back := [d for d, c in enumerate(view.slices) if c and c.step < 0]:
            text = f"jnp.flip({text}, {tuple_text(tuple(map(str, back)))})"
    if view.moved:
        text = f"{text}.transpose({', '.join(map(str, view.order))})"
    now = tuple(_length(view, d) for d in view.order)
    return text if now == view.final else f"{text}.reshape({shape_text(view.final)})"


def padded(text: str, access: BlockAccess) -> str:
    """``text``, an array, with the elements after its end that the last block of windows reaches."""
    if all(d.missing == 0 for d in access.window):
        return text
    lacking = [str(d.missing) if isinstance(d.missing, int) else f"max({d.missing}, 0)" for d in access.window]
    return f"jnp.pad({text}, {tuple_text(tuple(f'(0, {n})' for n in lacking))})"


def passed_shape(access: BlockAccess, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of what a kernel is passed if open dims have ``sizes``: seen as its blocks need it, and padded for the last."""
    shape = tuple(evaluate(n, sizes) for n in access.view.final)
    lacking = (max(evaluate(d.missing, sizes), 0) for d in access.window)
    return tuple(map(add, shape, lacking)) if access.window else shape


def reaches_out(access: BlockAccess, sizes: Mapping[str, int]) -> bool:
    """Whether a kernel is passed a part of an array that it has not if open dims have ``sizes``."""
    for cut, dim in zip(access.view.slices, access.view.shape, strict=True):
        if cut is not None and (length := evaluate(cut.length, sizes)) > 0:
            first = evaluate(cut.start, sizes)
            last = first + (length - 1) * cut.step
            if not (min(first, last) >= 0 and max(first, last) < evaluate(dim, sizes)):
                return True
    return False


def host_unview(name: str, access: BlockAccess, shape: tuple[Size, ...]) -> str:
    """The inverse for an output."""
    view, text = access.view, name
    now = tuple(view.shape[d] for d in view.order)
    if view.moved:
        if view.final != now:
            text = f"{text}.reshape({shape_text(now)})"
        back = tuple(view.order.index(d) for d in range(len(view.order)))
        text = f"{text}.transpose({', '.join(map(str, back))})"
        now = view.shape
    else:
        now = view.final
    if back := [d for d, c in enumerate(view.slices) if c is not None]:
        text = text if now == view.shape else f"{text}.reshape({shape_text(view.shape)})"
        text, now = f"jnp.flip({text}, {tuple_text(tuple(map(str, back)))})", view.shape
    return text if now == shape else f"{text}.reshape({shape_text(shape)})"


def _length(view: View, dim: int) -> Size:
    cut = view.slices[dim]
    return cut.length if cut else view.shape[dim]


def shape_text(shape: tuple[Size, ...]) -> str:
    """A shape as the inside of a call or tuple: ``3, M``."""
    return ", ".join(map(str, shape))


def tuple_text(parts: tuple[str, ...]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def empty(shape: tuple[Size, ...]) -> bool:
    """Whether the shape is known to have no elements."""
    return product(shape) == 0


def origin(op: Op) -> str:
    """The line of the operator that ``op`` comes from: ``softmax.py:12``, or nothing."""
    if op.loc is None:
        return ""
    return f"{op.loc.file.rsplit('/', 1)[-1]}:{op.loc.line}"
