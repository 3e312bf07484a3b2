"""What is known of an access before it runs: whether 16 bytes at a time can be moved without looking at addresses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.emit.clike import Dialect, Planner
from portakern.emit.clike.memory import Addresses
from portakern.emit.clike.plan import Access
from portakern.emit.clike.terms import ONE, ZERO
from portakern.ir import tile as t
from portakern.ir.size import Size, divides

VECTOR_BYTES = 16
_LONG = 8 * 32
"""Elements from which on a row gives every lane of a warp a vector."""


@dataclass(frozen=True)
class CudaAccess(Access):
    """``aligned``: every row of the tile begins at a multiple of 16 bytes, its columns are contiguous, and every 16 bytes of it
    lie inside the buffer or outside as a whole.  ``by_rows``: long contiguous rows; when loaded they
    may begin anywhere, when stored they begin aligned, and may end within 16 bytes.  ``apart``: most rows of it begin between
    multiples of 16 bytes, whatever the sizes, so that elements are moved one by one; but of long rows of 16-bit elements
    (``between``) lanes may put vectors together."""

    aligned: bool = False
    by_rows: bool = False
    apart: bool = False
    between: bool = False

    def __str__(self) -> str:
        return super().__str__() + (" aligned" if self.aligned else " by rows" if self.by_rows else "")


class CudaAddresses(Addresses):
    def access(self, op: t.Load | t.Store, buffer: str, dims: t.Dims, inline_left: frozenset[str] = frozenset()) -> CudaAccess:
        made = super().access(op, buffer, dims, inline_left)
        if bool(dims) and made.strides[-1] == ONE and is_aligned(self.kernel, op, dims):
            return CudaAccess(**vars(made), aligned=True)
        by_rows = is_shifted(self.kernel, op, dims) if isinstance(op, t.Load) else has_aligned_rows(self.kernel, op, dims)
        contiguous = bool(dims) and not by_rows and made.strides[-1] in (ZERO, ONE)
        apart = contiguous and lies_apart(self.kernel, op, dims)
        between = apart and made.strides[-1] == ONE and lies_between(self.kernel, op, dims)
        return CudaAccess(**vars(made), by_rows=by_rows, apart=apart, between=between)


class CudaPlanner(Planner):
    def __init__(self, kernel: t.Kernel, dialect: Dialect) -> None:
        super().__init__(kernel, dialect)
        self.addresses = CudaAddresses(self.kernel)


def is_aligned(kernel: t.Kernel, op: t.Load | t.Store, dims: t.Dims) -> bool:
    """Whether 16 bytes along the last of ``dims``, which is contiguous, are always aligned and never cut by the extent.

    Relies on the buffer's facts: callers of a kernel see to it that an array begins where its type says.
    """
    have = t.buffer_type(op.buffer)
    elements = max(1, VECTOR_BYTES // DTYPES[have.dtype].bytes)
    column = dims[-1][0]
    if have.align % VECTOR_BYTES or not _whole(kernel.axis[column], elements):
        return False
    for index, stride in ((d.index, d.stride) for d in t.joined_dims(op)):
        picks_columns = index.gather >= 0 and isinstance(op, t.Load) and column in t.tile_type(op.gathers[index.gather]).axes
        if picks_columns or not divides(elements, stride if index.gather >= 0 else _times(index.offset, stride)):
            return False
        for term in index.terms:
            # A tile begins at a multiple of its size; along the columns only that beginning counts.
            axis = kernel.axis[term.axis]
            step = axis.tile if term.axis == column and term.div == 1 and not term.mod else 1
            if axis.extent != 1 and not divides(elements, _times(_times(term.scale, step), stride)):
                return False
    return True


def lies_apart(kernel: t.Kernel, op: t.Load | t.Store, dims: t.Dims) -> bool:
    """Whether rows of the tile, whose columns are contiguous, begin between multiples of 16 bytes: their distances say so, or
    how far all of them are from one, or each column finds its own element."""
    have = t.buffer_type(op.buffer)
    elements, column = max(1, VECTOR_BYTES // DTYPES[have.dtype].bytes), dims[-1][0]
    if any(i.gather >= 0 for i in op.indices):
        return False
    for dim in t.joined_dims(op):
        for term in dim.index.terms:
            taken_apart = term.axis == column and (term.div != 1 or bool(term.mod))
            step = kernel.axis[term.axis].tile if term.axis == column and not taken_apart else 1
            distance = _times(_times(term.scale, step), dim.stride)
            if taken_apart or (isinstance(distance, int) and kernel.axis[term.axis].extent != 1 and distance % elements):
                return True
    ahead = sum(offset for d in t.joined_dims(op) if isinstance(offset := _times(d.index.offset, d.stride), int))
    return ahead % elements != 0


def lies_between(kernel: t.Kernel, op: t.Load | t.Store, dims: t.Dims) -> bool:
    """Whether long rows of the tile are neighbours of 16 bits in an array that begins aligned, and give every thread whole
    vectors."""
    have, (column, cols) = t.buffer_type(op.buffer), dims[-1]
    size = math.prod(n for _, n in dims)
    along = [(d, term) for d in t.joined_dims(op) for term in d.index.terms if term.axis == column]
    neighbours = len(along) == 1 and all((d.stride, x.scale, x.div, x.mod) == (1, 1, 1, 0) for d, x in along)
    whole = cols % 8 == 0 and cols >= _LONG and size // 8 >= 32 * kernel.schedule.warps
    return neighbours and whole and DTYPES[have.dtype].bytes == 2 and have.align % VECTOR_BYTES == 0


def is_shifted(kernel: t.Kernel, op: t.Load, dims: t.Dims) -> bool:
    """Whether an elementwise kernel reads several long contiguous rows of 16-bit elements, in an array that begins aligned,
    and gives every thread whole vectors of them (see pk::Rows)."""
    have = t.buffer_type(op.buffer)
    if not _in_rows(kernel, op, dims) or DTYPES[have.dtype].bytes != 2:
        return False
    (_, rows), (_, cols) = dims
    return cols % 8 == 0 and rows * cols // 8 >= 32 * kernel.schedule.warps


def has_aligned_rows(kernel: t.Kernel, op: t.Store, dims: t.Dims) -> bool:
    """Whether an elementwise kernel writes several long rows, each of which begins aligned."""
    have = t.buffer_type(op.buffer)
    elements = max(1, VECTOR_BYTES // DTYPES[have.dtype].bytes)
    return _in_rows(kernel, op, dims) and all(divides(elements, n) for n in have.element_strides[:-1])


def _in_rows(kernel: t.Kernel, op: t.Load | t.Store, dims: t.Dims) -> bool:
    have = t.buffer_type(op.buffer)
    if kernel.family != "elementwise" or len(dims) != 2 or any(i.plain is None for i in op.indices):
        return False
    (_, rows), (column, cols) = dims
    return op.indices[-1].plain == column and have.element_strides[-1] == 1 and have.align % VECTOR_BYTES == 0 \
        and rows > 1 and cols >= _LONG


def _whole(column: t.Axis, elements: int) -> bool:
    """Whether neither the tile nor the extent cuts a vector."""
    return column.tile % elements == 0 and (not column.ragged or divides(elements, column.extent))


def _times(a: Size, b: Size) -> Size:
    return b * a if isinstance(a, int) else a * b
