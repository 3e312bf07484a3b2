"""Loops of steps that wait for each other: what a step reads is on its way some steps before it.

Nothing else hides the way to memory there: few warps are at work, since a block does one step after the other, and the next
step's loads cannot pass what this step stores and where its threads meet.  On an H200 a state-space model of 8 x 2048 x 2048
with 16 numbers a lane took 1907 us without and 668 with it by the same tiles, the delta rule of 128 heads, 2048 steps and 64
features 2184 and 934; by unrolling alone 1377 and 1639.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p
from portakern.emit.clike.terms import ZERO

from .plans import vector_width


@dataclass(frozen=True)
class Taken(p.Statement):
    """What ``ahead`` read for the step of this ``turn``."""

    NAMES = ("name", "ahead", "turn")
    MADE = ("name",)

    name: str
    dtype: str
    ahead: str
    turn: str
    note: str = ""


MOST = 4
"""Steps before a step at which it is read."""

REGISTERS = 128
"""Registers of 32 bits of a thread that may hold what is on its way.  The loops of the gradient of the delta rule with 32
heads, 4096 steps and 128 features took 10.1 ms on an H200 with 48 or 96 of them, by which they read nothing ahead, 8.4 with
128 and with 160; those of a state-space model of 8 x 2048 x 2048, with 32 lanes a block, 4.0, 2.6 and 3.7 with 48, 128, 160
(``benchmarks/steps.py --gradients``, with this as given)."""

FILE = 1 << 16
"""Registers of 32 bits of an SM, ``registers_per_unit`` of every device here (a plan has none), which one block shares: half of
a thread's are for what a step computes."""


def read_ahead(loop: p.Loop, plan: KernelPlan) -> tuple[int, Sequence[p.LoadTile | p.Scalar]]:
    """By how many steps, and which loads of ``loop``: those whose addresses depend on nothing else that a step computes."""
    if plan.family != "recurrence" or loop.step != 1 or loop.begin != ZERO or loop.pipeline is not None:
        return 0, ()
    arrays = {q.name for q in plan.params if q.role == "array"}
    computed = frozenset().union(*map(p.made, loop.body))
    found = [s for s in loop.body if isinstance(s, p.LoadTile | p.Scalar) and s.define and not _picks(s)
             and not arrays.isdisjoint(p.reads(s)) and computed.isdisjoint(p.reads(s))]  # fmt: skip
    words = sum(_words(s, plan) for s in found)
    room = min(REGISTERS, FILE // plan.threads // 2)
    steps = next((n for n in range(MOST, 1, -1) if n * words <= room), 0)
    return (steps, found) if steps and found else (0, ())


def _picks(s: p.LoadTile | p.Scalar) -> bool:
    return isinstance(s, p.LoadTile) and bool(s.picks)


def _words(s: p.LoadTile | p.Scalar, plan: KernelPlan) -> int:
    """Registers of a thread for what ``s`` reads."""
    each = max(1, DTYPES[s.dtype].bytes // 4)
    if isinstance(s, p.Scalar):
        return each
    of = s.place.layout
    elements, width = -(-of.rows * of.cols // plan.threads), vector_width(plan, of)
    along = width * max(1, of.cols // (width * plan.threads))
    return each * {"tile": elements, "row": max(1, elements // along), "col": min(along, of.cols)}[s.place.side]
