"""Products of f32 on the matrix unit: operands as sums of three bf16, of whose products the six largest are taken (bf16x6).

They are no less exact than fused multiply-adds, and on Hopper faster (see pk/thirds.cuh), but an infinity among the operands is
no sum of thirds: a block whose results are not all finite sums them again, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p
from portakern.emit.clike.plan import statements
from portakern.emit.clike.terms import is_zero
from portakern.errors import ScheduleError

from .lines import Lines, goes_into_lines, moved
from .plans import CudaKernelPlan

THREADS_READ = "six mma.sync.m16n8k16 (f32 as sums of three bf16)"
UNIT_READS = "six wgmma.m64nNk16 (f32 as sums of three bf16)"
WAYS = {"bf16x6": THREADS_READ, "bf16x6-wgmma": UNIT_READS}
"""Values of the option ``mma``, and what they are in a plan."""

MOST_SUMS = 64
"""Elements of the result that a thread can have twice: as summed so far, and as the matrix unit sums a step."""

_REPEATABLE = (p.Loop, p.Block, p.CopyToShared, p.StoreToShared, p.Commit, p.Wait, p.Sync, p.LoadTile, p.Map, p.Scalar, p.Fill,
               p.Relayout, p.Dot)  # fmt: skip
"""What a loop may do that can be done again."""


@dataclass(frozen=True)
class Thirds(p.Shared):
    """Thirds of both operands, of two steps (pk::Thirds): ``rows`` of k below each other, ``sizes`` as of :func:`_sizes`."""

    sizes: tuple[int, int, int] = (0, 0, 0)

    @property
    def bytes(self) -> int:
        return self.rows * self.cols * 2


@dataclass(frozen=True)
class SumAgain(p.Block):
    """``body``, which sums products up in ``fill.name``, and once more one by one where not all of these are finite."""

    fill: p.Fill | None = None
    thirds: Thirds | None = None

    def __str__(self) -> str:
        return super().__str__() + f"\n    again, one by one, from {self.fill} if not finite"


@dataclass(frozen=True)
class DotInThirds(p.Dot):
    """A product by thirds, or one by one where the block of it sums again."""


def obstacle(plan: KernelPlan) -> str:
    """Why the products of ``plan`` cannot be done by thirds; empty where they can."""
    dots = [s for s in statements(plan.body) if isinstance(s, p.Dot)]
    if len(dots) != 1:
        return "it has not one product"
    dot = dots[0]
    if (dot.element, dot.precision) != ("f32", "ieee"):
        return "its operands are not f32"
    if dot.a.shared is None or dot.b.shared is None:
        return "an operand comes from another product, in registers"
    rows, cols, depth = _sizes(dot)
    if rows % 16 or cols % 8 or depth % 16:
        return f"its tiles are {rows} x {depth} by {depth} x {cols}, not in multiples of 16, 8 and 16"
    at = _summed(plan.body, dot)
    if at is None:
        return "what it adds to does not begin at zero"
    loop = plan.body[at[1]]
    if not all(isinstance(s, _REPEATABLE) and getattr(s, "define", True) for s in statements([loop])):
        return "more than the product is carried from step to step"
    return ""


def by_thirds(plan: KernelPlan, asked: str, target: Target) -> str:
    """By which instructions the product of ``plan`` is done in thirds; empty where it is not.

    Raises :class:`ScheduleError` where that was asked for and cannot be.
    """
    if asked not in ("auto", *WAYS) or not any(isinstance(s, p.Dot) for s in statements(plan.body)):
        return ""
    why = obstacle(plan)
    by_unit = why or _obstacle_to_the_unit(plan, target)
    if (why and asked in WAYS) or (by_unit and asked == "bf16x6-wgmma"):
        raise ScheduleError(f"{plan.name} cannot use {asked} on {target}: {why or by_unit}", "take mma=fma, or other tiles")
    if asked == "bf16x6-wgmma" or (asked == "auto" and not by_unit):
        return UNIT_READS
    return THREADS_READ if asked == "bf16x6" or (not why and _pays(plan)) else ""


def _obstacle_to_the_unit(plan: KernelPlan, target: Target) -> str:
    if not target.device.has("wgmma"):
        return f"{target.device.name} does not have wgmma"
    dot = next(s for s in statements(plan.body) if isinstance(s, p.Dot))
    rows, cols, _ = _sizes(dot)
    down = min(plan.warps, rows // 16)
    if plan.warps % 4 or rows % 64 or cols % 64 or plan.warps % down or cols % (64 * (plan.warps // down)):
        return f"{plan.warps} warps do not share {rows} x {cols} elements in blocks of 64 rows and 64 columns or more"
    if rows * cols > MOST_SUMS * 32 * plan.warps:
        return f"{rows} x {cols} sums are more than {plan.warps} warps can hold twice"
    taken = sum(x.rows * x.cols * DTYPES[x.dtype].bytes * x.slots for x in plan.shared) + _thirds(dot).bytes
    room = target.device.count("shared_bytes_per_block") - RESERVED
    return f"{taken} bytes of shared memory are more than {room}" if taken > room else ""


RESERVED = 12 << 10
"""Of shared memory, for padding between rows and for the library's own."""


WARP_TILE = 32
"""Rows and columns of a warp's part of a tile, below which splitting the operands takes longer than multiplying them.  On an
H100 32 x 32 for each of four warps took 2.67 ms for 4096^3, 64 x 64 2.45, fused multiply-adds 2.92."""


def _pays(plan: KernelPlan) -> bool:
    """Whether the tiles are large enough for operands to be split seldom."""
    dot = next(s for s in statements(plan.body) if isinstance(s, p.Dot))
    rows, cols, _ = _sizes(dot)
    return min(rows, cols) >= WARP_TILE and rows * cols >= WARP_TILE**2 * plan.warps


def _sizes(dot: p.Dot) -> tuple[int, int, int]:
    """Rows, columns and depth of a tile's product."""
    a = dot.a.shared
    assert a is not None
    return dot.place.layout.rows, dot.place.layout.cols, a.rows if dot.a.transposed else a.cols


def _thirds(dot: p.Dot, name: str = "thirds") -> Thirds:
    rows, cols, depth = _sizes(dot)
    return Thirds(name, "bf16", 2 * 3 * depth, rows + cols, 1, "", False, "thirds of both operands", (rows, cols, depth))


def in_thirds(plan: CudaKernelPlan) -> dict[str, Any]:
    """Body and shared operands of ``plan`` with its product by thirds, of operands in lines; there must be no
    :func:`obstacle`."""
    copied = moved(plan, _lines(plan))
    dot = next(s for s in statements(copied.body) if isinstance(s, p.Dot))
    found = _summed(copied.body, dot)
    assert found is not None
    fill, at = copied.body[found[0]], found[1]
    assert isinstance(fill, p.Fill)
    thirds = _thirds(dot, plan.free_names().fresh("thirds", "thirds_of_both")) if plan.products == UNIT_READS else None
    body = (_changed(copied.body[at]),)
    again = SumAgain(body, fill=replace(fill, define=False, note=""), thirds=thirds)
    shared = (*copied.shared, thirds) if thirds is not None else copied.shared
    return {"body": (*copied.body[:at], again, *copied.body[at + 1 :]), "shared": shared}


ALONG, ACROSS = 4, 8
"""Elements between rows along the contracted axis and across it, with which the lanes of a warp meet all banks."""


def _lines(plan: KernelPlan) -> dict[p.Shared, Lines]:
    """Operands that are copied from memory, in lines as they lie there."""
    every = statements(plan.body)
    others = {s.shared for s in every if isinstance(s, p.StoreToShared)
              or (isinstance(s, p.CopyToShared) and not goes_into_lines(s, plan.threads))}
    copied = {s.shared for s in every if isinstance(s, p.CopyToShared)} - others
    return {s: Lines(s.name, s.dtype, s.rows, s.cols, s.slots, s.role, s.transposed, s.why,
                     padding=ALONG if s.transposed == (s.role == "B") else ACROSS) for s in copied}  # fmt: skip


def _summed(body: Sequence[p.Statement], dot: p.Dot) -> tuple[int, int] | None:
    """Where what ``dot`` adds to is made, as zeros, and the loop that adds to it."""
    loop = next((n for n, s in enumerate(body) if isinstance(s, p.Loop) and dot in statements([s])), None)
    fill = next((n for n, s in enumerate(body) if isinstance(s, p.Fill) and s.name == dot.acc), None)
    if loop is None or fill is None or fill > loop:
        return None
    filled = body[fill]
    return (fill, loop) if isinstance(filled, p.Fill) and is_zero(filled.value) else None


def _changed(s: p.Statement) -> p.Statement:
    if isinstance(s, p.Dot):
        return DotInThirds(**vars(s))
    if isinstance(s, p.Loop | p.Block):
        return replace(s, body=tuple(map(_changed, s.body)))
    return s
