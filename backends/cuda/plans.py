"""The plan of a CUDA kernel: the C family's, with the instructions that do its matrix products, and facts about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import Dialect, KernelPlan
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Layout
from portakern.emit.clike.plan import statements
from portakern.emit.clike.terms import Word
from portakern.errors import ScheduleError

from .addresses import CudaAccess
from .lines import Lines

BLOCK = Word(Dialect.block)
"""The index of the block."""

AUTO_WGMMA = True
"""Whether wgmma is taken wherever it can be: on an H200 it did a bf16 product of 4096^3 in 0.62 of the time of mma.sync."""

STATIC_SHARED = 32 << 10
"""Operands up to this many bytes are declared as static shared memory, of which a block has 48 KB."""

LIBRARY_SHARED = 12 << 10
"""Of what is left, what exchanges may take (:func:`scratch_bytes`); where they take more, operands have less.  The rest is for
reductions (``kPartialBytes`` of reduce.cuh)."""

SLAB_BYTES = 16896
"""``kSlabBytes`` of relayout.cuh."""


KEPT = ("none", "loads", "stores")

MULTIPLIED = ("bf16", "f16", "i8", "u8", "f8e4m3", "f8e5m2")
"""What matrix instructions multiply exactly (8-bit floats where ``fp8_fast`` says that their sums may be cut)."""


@dataclass(frozen=True)
class CudaKernelPlan(KernelPlan):
    """``products`` says by which instructions the kernel's matrix products are done; empty where it has none.  ``at_once`` is
    how many blocks an SM must be able to hold, for which the compiler leaves registers (0: as it likes).  ``keep`` says which
    lines L2 shall give up last: those of ``loads``, of ``stores``, or of ``none``.  ``beside``: blocks of other kernels are in
    the launch, whose operands take the same shared memory."""

    products: str = ""
    at_once: int = 0
    keep: str = "none"
    beside: bool = False

    def __str__(self) -> str:
        head, _, rest = super().__str__().partition("\n")
        return f"{head}\n    products by {self.products}\n{rest}" if self.products else f"{head}\n{rest}"


# ---- facts about a plan ----------------------------------------------------------------------------------------------


def aligned(access: p.Access) -> bool:
    return isinstance(access, CudaAccess) and access.aligned


def by_rows(k: KernelPlan, s: p.LoadTile | p.StoreTile) -> bool:
    """Whether the long rows that ``s`` moves are so moved: a lane has whole vectors of them."""
    if s.place is None or not isinstance(s.access, CudaAccess):
        return False
    return s.access.by_rows and vector_width(k, s.place.layout) > 1


def chained(k: KernelPlan) -> bool:
    """Whether one product's result is another's operand: then warps hold whole rows, which stay in registers."""
    return any(isinstance(s, p.Dot) and s.a.shared is None for s in statements(k.body))


def least_blocks(k: KernelPlan) -> int:
    """Blocks that an SM should hold at once: with warpgroups and small accumulators as many as leave a thread 128 registers,
    so that one block's copies hide behind another's products.  Stores with a bounds check need more registers than that."""
    if not by_warpgroups(k) or any(isinstance(s, p.StoreTile) and s.access.left for s in statements(k.body)):
        return 1
    elements = max(s.place.layout.rows * s.place.layout.cols for s in statements(k.body) if isinstance(s, p.Dot))
    return max(1, 512 // k.threads) if elements <= 64 * k.threads else 1


def precision_of(k: KernelPlan, layout: Layout) -> str:
    return next((s.precision for s in statements(k.body) if isinstance(s, p.Dot) and s.place.layout == layout), "ieee")


VERY_LONG = 4096
"""Columns from which on it pays to put vectors together: softmax of 4096 x 50257 bf16 took 647 us on an H200, 981 element by
element, but layer norm of 16384 x 1023 took 38 us, 31 element by element."""


def vector_width(k: KernelPlan, layout: Layout) -> int:
    """Elements of 16 bytes of the narrowest type that is loaded or stored in ``layout`` (at most 8).  One, where most of these
    accesses move elements one by one, or a store does: neighbouring lanes then have neighbours, which a warp moves together (of
    16 bits, softmax of 8192 x 4091 took 137 us on an H200 with eight to a lane, 55 us with one).  But lanes put very long rows
    that are stored together (:func:`between`), and rows that are scanned are cut into vectors, of which there must not be too
    many (scan.cuh)."""
    moved = [(s, often) for s, often in _often(k.body) if isinstance(s, p.LoadTile | p.StoreTile)]
    moved = [(s, often) for s, often in moved if s.place is not None and s.place.layout == layout]
    narrowest = min((DTYPES[s.dtype].bytes for s, _ in moved), default=2)
    apart = [(s, often) for s, often in moved if isinstance(s.access, CudaAccess) and s.access.apart]
    most = 2 * sum(often for _, often in apart) > sum(often for _, often in moved)
    stored = any(isinstance(s, p.StoreTile) for s, _ in apart)
    together = stored and layout.cols >= VERY_LONG and all(_may_be_put_together(s) for s, _ in apart)
    if (stored or most) and not together and not _is_scanned(k, layout):
        return 1
    return min(8, 16 // max(2, narrowest))


def _is_scanned(k: KernelPlan, layout: Layout) -> bool:
    return any(isinstance(s, p.Scan | p.ScanBy) and s.place.layout == layout for s in statements(k.body))


def _may_be_put_together(s: p.LoadTile | p.StoreTile) -> bool:
    """Whether lanes may put vectors together, of long rows that begin anywhere."""
    if s.picks or s.place is None or (isinstance(s, p.StoreTile) and s.mode != "set"):
        return False
    in_rows = s.place.side == "tile" and s.place.layout.kind == "rows"
    return in_rows and isinstance(s.access, CudaAccess) and s.access.between


def between(k: KernelPlan, s: p.LoadTile | p.StoreTile) -> bool:
    """Whether lanes put the vectors together that ``s`` moves, of rows that begin anywhere."""
    if not _may_be_put_together(s) or s.place is None or vector_width(k, s.place.layout) != 8:
        return False
    return s.place.layout.cols >= VERY_LONG or _is_scanned(k, s.place.layout)


TURNS = 4
"""How often a loop is taken to turn."""


def _often(block: Sequence[p.Statement], times: int = 1) -> Iterator[tuple[p.Statement, int]]:
    """All statements, each with how often it is taken to be done."""
    for s in block:
        yield s, times
        if isinstance(s, p.Loop | p.Block):
            yield from _often(s.body, times * TURNS if isinstance(s, p.Loop) else times)


def shared_offsets(k: KernelPlan) -> list[int]:
    """Where each operand begins in shared memory, and the end: the library aligns them to 1024 bytes where that is a divisor
    of their size, else to 128 (see pk::Shared; pk::Lines always to 128)."""
    found, end = [], 0
    for s in k.shared:
        width = s.cols + s.padding if isinstance(s, Lines) else s.cols
        size = s.rows * width * DTYPES[s.dtype].bytes
        align = 128 if size % 1024 or isinstance(s, Lines) else 1024
        begin = -(-end // align) * align
        found.append(begin)
        end = begin + -(-size // align) * align * s.slots
    return [*found, end]


def shared_operand_bytes(k: KernelPlan) -> int:
    return shared_offsets(k)[-1]


def operands_are_static(k: KernelPlan) -> bool:
    if isinstance(k, CudaKernelPlan) and k.beside:
        return not k.shared
    return shared_operand_bytes(k) + max(0, scratch_bytes(k) - LIBRARY_SHARED) <= STATIC_SHARED


def scratch_bytes(k: KernelPlan) -> int:
    """Static shared memory through which tiles go into other layouts: for each size of exchange one."""
    exchanges = [s for s in statements(k.body) if isinstance(s, p.Relayout) and s.word in ("relayout", "transpose")]
    rows = {16 * s.of.size for s in statements(k.body) if isinstance(s, p.Order)}  # pk::row_space (sort.cuh)
    return sum({_exchange_bytes(s) for s in exchanges}) + sum(rows)


def _exchange_bytes(s: p.Relayout) -> int:
    """What ``pk::Exchange`` (relayout.cuh) holds at a time."""
    layout, size = s.place.layout, DTYPES[s.dtype].bytes
    if s.place.side != "tile":
        return s.place.size * size
    rows, cols = (layout.cols, layout.rows) if s.word == "transpose" else (layout.rows, layout.cols)
    line = (cols if 1 in (rows, cols) else cols + max(1, 4 // size)) * size
    return rows * line if rows * line <= SLAB_BYTES else min(rows, 1 << max(0, (SLAB_BYTES // line).bit_length() - 1)) * line


# ---- which instructions do the products --------------------------------------------------------------------------------


def by_warpgroups(k: KernelPlan) -> bool:
    return isinstance(k, CudaKernelPlan) and k.products.startswith("wgmma")


def products_of(k: KernelPlan, asked: str, target: Target) -> str:
    """The instructions that do the matrix products of ``k``.

    Raises :class:`ScheduleError` where wgmma was asked for and cannot be had.
    """
    dots = [s for s in statements(k.body) if isinstance(s, p.Dot)]
    if not dots:
        return ""
    if asked == "wgmma" or (asked == "auto" and AUTO_WGMMA):
        obstacle = _obstacle_to_wgmma(k, dots, target)
        if not obstacle:
            depth = 32 // min(DTYPES[s.element].bytes for s in dots)
            return f"wgmma.m64nNk{depth} (warpgroups read both operands from shared memory)"
        if asked == "wgmma":
            raise ScheduleError(f"{k.name} cannot use wgmma on {target}: {obstacle}", hint="take mma=sync, or other tiles")
    elements = {(s.element, s.precision) for s in dots}
    names = {e: f"mma.sync.m16n8k{32 // DTYPES[e].bytes} (fragments by ldmatrix)" for e in MULTIPLIED}
    exact = "fused multiply-adds (no matrix instruction multiplies {} exactly)"
    return ", ".join(sorted({"mma.sync.m16n8k8 (tf32)" if precision == "tf32" else names.get(e, exact.format(e))
                             for e, precision in elements}))  # fmt: skip


def _obstacle_to_wgmma(k: KernelPlan, dots: Sequence[p.Dot], target: Target) -> str:
    """Why the products of ``k`` cannot be done by warpgroups; empty where they can."""
    if not target.device.has("wgmma"):
        return f"{target.device.name} does not have it"
    if any(s.element not in MULTIPLIED for s in dots):
        return "its operands have 16 or 8 bits"
    if any(s.a.shared is None or s.b.shared is None for s in dots):
        return "an operand comes from another product, in registers"
    if any(DTYPES[s.element].bytes == 1 and (s.a.transposed or not s.b.transposed) for s in dots):
        return "operands of 8 bits lie with the contracted axis along their rows"
    for s in dots:
        rows, cols = s.place.layout.rows, s.place.layout.cols
        down = min(k.warps, rows // 16)  # warps below each other; the tile may be several times as high
        if k.warps % 4 or rows % 64 or k.warps % down or rows % (16 * down) or cols % (64 * (k.warps // down)):
            return f"{k.warps} warps do not share {rows} x {cols} elements in blocks of 64 rows and 64 columns or more"
    return odd_operand(k)


def odd_operand(k: KernelPlan) -> str:
    """Which operand in shared memory the matrix unit cannot read by itself, and why; empty where it can read all."""
    odd = next((x for x in k.shared if x.cols * DTYPES[x.dtype].bytes % 128 or x.rows % 8), None)
    return f"the operand {odd.name} is {odd.rows} x {odd.cols}, not in panels of 8 x 128 bytes" if odd else ""
