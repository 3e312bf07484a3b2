"""Products of f32 on the matrix unit: operands as sums of three bf16, of whose products the six largest are taken (bf16x6).

They are no less exact than fused multiply-adds, and on Hopper faster (see pk/thirds.cuh), but an infinity among the operands is no
sum of thirds: a block whose results are not all finite sums them again, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p
from portakern.emit.clike.plan import statements
from portakern.emit.clike.terms import is_zero
from portakern.errors import ScheduleError

from .lines import Lines, moved

IN_THIRDS = "mma.sync.m16n8k16 (f32 as sums of three bf16: six products)"

_REPEATABLE = (p.Loop, p.Block, p.CopyToShared, p.StoreToShared, p.Commit, p.Wait, p.Sync, p.LoadTile, p.Map, p.Scalar, p.Fill,
               p.Relayout, p.Dot)  # fmt: skip
"""What a loop may do that can be done again."""


@dataclass(frozen=True)
class SumAgain(p.Block):
    """``body``, which sums products up in ``fill.name``, and once more one by one where not all of these are finite."""

    fill: p.Fill | None = None

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
    depth = dot.a.shared.cols if not dot.a.transposed else dot.a.shared.rows
    rows, cols = dot.place.layout.rows, dot.place.layout.cols
    if rows % 16 or cols % 8 or depth % 16:
        return f"its tiles are {rows} x {depth} by {depth} x {cols}, not in multiples of 16, 8 and 16"
    at = _summed(plan.body, dot)
    if at is None:
        return "what it adds to does not begin at zero"
    loop = plan.body[at[1]]
    if not all(isinstance(s, _REPEATABLE) and getattr(s, "define", True) for s in statements([loop])):
        return "more than the product is carried from step to step"
    return ""


def by_thirds(plan: KernelPlan, asked: str) -> bool:
    """Whether the product of ``plan`` is done by thirds.

    Raises :class:`ScheduleError` where that was asked for and cannot be.
    """
    if asked not in ("auto", "bf16x6") or not any(isinstance(s, p.Dot) for s in statements(plan.body)):
        return False
    why = obstacle(plan)
    if why and asked == "bf16x6":
        raise ScheduleError(f"{plan.name} cannot use bf16x6: {why}", hint="take mma=fma, or other tiles")
    return not why and (asked == "bf16x6" or pays(plan))


def pays(plan: KernelPlan) -> bool:
    """Whether the tiles are large enough for operands to be split seldom."""
    dot = next(s for s in statements(plan.body) if isinstance(s, p.Dot))
    layout = dot.place.layout
    return min(layout.rows, layout.cols) >= 64 and layout.rows * layout.cols >= 64 * 64


def in_thirds(plan: KernelPlan) -> KernelPlan:
    """``plan`` with its product by thirds, of operands in lines; there must be no :func:`obstacle`."""
    plan = moved(plan, _lines(plan))
    dot = next(s for s in statements(plan.body) if isinstance(s, p.Dot))
    found = _summed(plan.body, dot)
    assert found is not None
    fill, at = plan.body[found[0]], found[1]
    assert isinstance(fill, p.Fill)
    again = SumAgain((_changed(plan.body[at]),), "", replace(fill, define=False, note=""))
    return replace(plan, body=(*plan.body[:at], again, *plan.body[at + 1 :]))


ALONG, ACROSS = 4, 8
"""Elements between rows along the contracted axis and across it, with which the lanes of a warp meet all banks (pk/thirds.cuh)."""


def _lines(plan: KernelPlan) -> dict[p.Shared, Lines]:
    """Operands that are copied from memory, in lines as they lie there."""
    every = statements(plan.body)
    others = {s.shared for s in every if isinstance(s, p.StoreToShared) or (isinstance(s, p.CopyToShared) and s.picks)}
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
