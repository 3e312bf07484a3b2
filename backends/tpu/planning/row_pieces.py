"""Steps cut into pieces of rows: the matrix units multiply for one piece while the vector units work on the one before.

A step of attention is a product, a softmax that waits for all of it, and a product that waits for the softmax: as one
chain of operations on a whole block it keeps one kind of unit busy at a time.  In pieces, the first product of the next
piece is issued before the rest of this one.  Where a row needs no element beyond its own number (a causal mask), a piece
of a block on the diagonal also stops there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.emit.running import Running
from portakern.ir.core import Arg, Op, sources, yielded
from portakern.ir.tile import ArgReduce, Dot, For, Reduce, ScanBy, SortBy, Store, TileType

from .blocks import LANES
from .constants import filled_with
from .kernel_plan import PallasKernelPlan
from .scalars import scalar_text


@dataclass(frozen=True)
class RowPieces:
    """``size`` rows of ``axis`` at a time; ``lead`` is the product that is issued a piece ahead, where one can be.

    ``until`` is an axis of which a piece needs only what lies before its own last row, counted in the block.
    """

    axis: str
    size: int
    lead: Dot | None
    until: str | None


def row_pieces_of(plan: PallasKernelPlan, ops: Sequence[Op], loop: For | None) -> RowPieces | None:
    """How to cut a step that computes ``ops``, the body of ``loop`` (``None``: straight code); ``None``: not at all."""
    size = plan.kernel.schedule.option("piece", 0)
    results = [op.value for op in ops if isinstance(op, Store)] + list(yielded(loop.body) if loop else ())
    if not isinstance(size, int) or not size or size % LANES or not any(isinstance(op, Dot) for op in ops) or not results:
        return None
    axis = plan.layout.place(results[0])[0]
    if axis is None or plan.spans[axis].size <= size or plan.spans[axis].size % size:
        return None
    apart = all(isinstance(x.type, TileType) and x.type.dims and plan.layout.place(x)[0] == axis for x in results)
    if not apart or any(_joins(op, axis) for op in ops) or any(a.flat and axis in a.place for a in plan.accesses):
        return None
    lead = next((op for op in ops if isinstance(op, Dot) and _leads(op) and plan.layout.place(op)[0] == axis), None)
    return RowPieces(axis, size, lead, next((n for m, n in plan.causal if m == axis and _aligned(plan, m, n, loop)), None))


def _leads(op: Dot) -> bool:
    """Whether a product depends on nothing that the step computes before."""
    fill = filled_with(op.acc)
    return fill is not None and fill.value == 0 and not any(_late(x) for x in (op.lhs, op.rhs))


def _late(op: Op) -> bool:
    """Whether ``op`` is computed from a sum, an order or what a loop carries."""
    joins = Dot | Reduce | Running | ScanBy | SortBy | ArgReduce
    return any(isinstance(o, joins) or (isinstance(o, Arg) and isinstance(o.type, TileType)) for o in sources(op))


def _joins(op: Op, axis: str) -> bool:
    return isinstance(op, Reduce | Running | ScanBy | SortBy | ArgReduce | Dot) and op.axis == axis


def _aligned(plan: PallasKernelPlan, m: str, n: str, loop: For | None) -> bool:
    """Whether the blocks of both axes begin at the same number."""
    rows, walked = plan.spans[m], plan.spans[n]
    if walked.size <= LANES:
        return False
    if loop is None or loop.axis != n:
        return rows.dim is None and walked.dim is None and walked.size >= rows.size
    begins = scalar_text(loop.lo, plan.spans) if loop.lo is not None else None
    return rows.size == walked.size and begins is not None and begins.text == rows.start
