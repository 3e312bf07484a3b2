"""Which arrays of a kernel are read and written through tensor descriptors.

A descriptor (``triton.tools.tensor_descriptor``, made by the host) tells the copy engine an array's shape and strides once;
the kernel then names only the first coordinates of a block.  Loads give zeros outside the array and stores leave what is
outside alone, so no access needs a mask, and no thread spends registers on addresses.

What the engine takes (CUDA Driver API, ``cuTensorMapEncodeTiled``): arrays of at most five dims, contiguous along the last
one, other strides and the address multiples of 16 bytes, blocks of at most 256 elements a dim and at least 16 bytes a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.ir.core import Arg, Op
from portakern.ir.index import Index
from portakern.ir.tile import BufferType, Kernel, Load, Store, buffer_type, tile_type

OPTION = "descriptors"
LOADS = 2
"""The value of the option with which arrays are read through descriptors and written by pointers."""
_FAMILIES = ("contraction", "attention")
_DIMS, _LONGEST, _ALIGNMENT = 5, 256, 16


@dataclass(frozen=True)
class DescribedBlock:
    """One array seen in blocks: the tile of each dim, and for each dim the axis it runs along ('' where it is 1 long)."""

    buffer: Arg
    shape: tuple[int, ...]
    axes: tuple[str, ...]

    @property
    def flat(self) -> bool:
        """Whether every dim of the array is one of the block, so that blocks need no reshaping."""
        return all(self.axes)


def described_blocks(kernel: Kernel) -> Mapping[Op, DescribedBlock]:
    """The loads and stores that go through descriptors, each with its block; none unless the schedule asks for them."""
    if kernel.family not in _FAMILIES or not kernel.schedule.option(OPTION, 0):
        return {}
    found: dict[Op, DescribedBlock] = {}
    blocks: dict[Arg, DescribedBlock] = {}
    for op in kernel.body.walk():
        if not isinstance(op, Load if kernel.schedule.option(OPTION, 0) == LOADS else Load | Store):
            continue
        block = _block(kernel, op)
        # One descriptor for each array: further shapes of blocks take pointers.
        if block is not None and blocks.setdefault(block.buffer, block) == block:
            found[op] = block
    return found


def _block(kernel: Kernel, op: Load | Store) -> DescribedBlock | None:
    if not isinstance(op.buffer, Arg) or (isinstance(op, Store) and op.mode != "set"):
        return None
    t = buffer_type(op.buffer)
    dims = tile_type(op.value if isinstance(op, Store) else op).dims
    if len(dims) != 2 or not _describable(t) or (isinstance(op, Load) and (op.gathers or op.pad not in (None, 0))):
        return None
    axes = tuple(_axis(kernel, index) for index in op.indices)
    tiled = [a for a in axes if a]
    if None in axes or sorted(str(a) for a in tiled) != sorted(a for a, _ in dims):
        return None
    if isinstance(op, Store) and (tuple(tiled) != tuple(a for a, _ in dims) or not _whole(kernel, op)):
        return None
    shape = tuple(kernel.axis[a].tile if a else 1 for a in axes)
    if max(shape) > _LONGEST or shape[-1] * DTYPES[t.dtype].bytes < _ALIGNMENT:
        return None
    return DescribedBlock(op.buffer, shape, tuple(str(a) for a in axes))


def _describable(t: BufferType) -> bool:
    size = DTYPES[t.dtype].bytes
    *outer, last = t.element_strides
    known = all(isinstance(n, int) and n > 0 for n in t.shape)
    return (known and t.dtype != "bool" and len(t.shape) <= _DIMS and last == 1 and t.align % _ALIGNMENT == 0
            and all(isinstance(s, int) and s > 0 and s * size % _ALIGNMENT == 0 for s in outer))  # fmt: skip


def _axis(kernel: Kernel, index: Index) -> str | None:
    """The axis whose tile a dim holds, '' where it holds one coordinate, ``None`` where the engine cannot say it."""
    if index.gather >= 0:
        return None
    if all(kernel.axis[a].tile == 1 for a in index.axes):
        return ""
    return index.plain


def _whole(kernel: Kernel, op: Store) -> bool:
    """Whether what a block reaches over its axes lies outside the array too: the engine knows the array's ends alone."""
    pairs = zip(op.indices, buffer_type(op.buffer).shape, strict=True)
    tiled = [(kernel.axis[a], size) for index, size in pairs for a in index.axes if kernel.axis[a].tile > 1]
    return all(not axis.ragged or axis.extent == size for axis, size in tiled)
