"""Whether a kernel's product can have its sums in tensor memory, and its plan where it can."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import nest_of
from portakern.emit.clike.layouts import Layout
from portakern.emit.clike.terms import Name, add, is_zero, multiply, number, whole
from portakern.errors import ScheduleError
from portakern.ir import tile as t

from ..hopper.plan import PANEL_SIDE
from ..hopper.planning import PipelinePlanner, obstacle_to_pipeline, units_of
from ..plans import MULTIPLIED, CudaKernelPlan, odd_operand
from .plan import TensorPlan

_MOST_HELD = 64
"""Registers of a thread for sums: with as many the most costly elementwise work that was tried spills none."""

_ROWS, _MOST_COLUMNS = (64, 128), 256
"""Of one product of a block by itself (PTX ISA, tcgen05.mma, cta_group::1)."""


def in_tensor_memory(plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> CudaKernelPlan:
    """``plan`` as a pipeline with its sums in tensor memory where that is possible and not forbidden.

    Raises :class:`ScheduleError` where the schedule asks for it and it cannot be had.
    """
    asked = str(kernel.schedule.option("mma", "auto"))
    if asked not in ("auto", "tcgen05") or (asked == "auto" and kernel.schedule.option("copies", "auto") == "threads"):
        return plan
    obstacle = _obstacle(plan, kernel, target)
    if not obstacle:
        return _TensorPlanner(plan, kernel, target).plan()
    if asked == "tcgen05" and any(isinstance(s, p.Dot) for s in p.statements(plan.body)):
        raise ScheduleError(f"{kernel.name} cannot use tcgen05 on {target}: {obstacle}", hint="take mma=sync, or other tiles")
    return plan


def _obstacle(k: CudaKernelPlan, kernel: t.Kernel, target: Target) -> str:
    """Why the products of ``k`` cannot be done by tcgen05; empty where they can."""
    if not target.device.has("tcgen05"):
        return f"{target.device.name} does not have it"
    if obstacle := obstacle_to_pipeline(k, kernel, target):
        return obstacle
    dot = next(s for s in p.statements(k.body) if isinstance(s, p.Dot))
    if dot.element not in MULTIPLIED:
        return "its operands have 16 or 8 bits"
    if dot.a.shared is None or dot.b.shared is None:
        return "an operand comes from another product, in registers"
    if odd := odd_operand(k):
        return odd
    rows, cols = dot.place.layout.rows, dot.place.layout.cols
    if rows not in _ROWS or cols > _MOST_COLUMNS or cols % (32 * (k.warps // 4)):
        return f"a product has 64 or 128 rows and up to {_MOST_COLUMNS} columns, 32 for each warpgroup, not {rows} x {cols}"
    outer = next(s for s in k.body if isinstance(s, p.Loop))
    start = next((s for s in k.body[: k.body.index(outer)] if isinstance(s, p.Fill) and s.name == dot.acc), None)
    if start is None or not is_zero(start.value):
        return "its sum does not begin at zero"
    *around, _ = nest_of(outer)
    return "" if all(map(_steps, around)) else "a loop around the product may have no step"


def _steps(loop: p.Loop) -> bool:
    """Whether ``loop`` has a step."""
    begin, end = number(loop.begin), number(loop.end)
    return begin is not None and end is not None and begin < end


class _TensorPlanner(PipelinePlanner):
    kind = TensorPlan

    @property
    def panel_rows(self) -> int:
        """A warpgroup has all rows of the tile, of some columns."""
        return self.kernel.axis[self.row].tile

    def columns_of_a_warp(self, layout: Layout) -> int:
        return layout.cols // (self.of.warps // 4)

    def _cluster(self) -> tuple[int, int]:
        """Pairs where there is a tile for every SM: alone, blocks of 128 x 256 ask the cache for 96 bytes a clock, of which
        it is assumed to give 64."""
        tiles = (self._steps(self.row), self._steps(self.col), self._batches())
        if str(self.kernel.schedule.option("cluster", "auto")) != "auto":
            return super()._cluster()
        if self._of_pixels() or not all(isinstance(n, int) for n in tiles):
            return (1, 1)
        full = prod(int(n) for n in tiles) >= units_of(self.target.device)  # type: ignore[arg-type]
        pair = (2, 1) if self._shareable(self.row, 2) else (1, 2) if self._shareable(self.col, 2) else (1, 1)
        return pair if full else (1, 1)

    def plan(self) -> TensorPlan:
        made = super().plan()
        assert isinstance(made, TensorPlan) and made.loop is not None
        dot = made.dot
        depth = 32 // DTYPES[dot.element].bytes
        products = f"tcgen05.mma.m{dot.place.layout.rows}n{dot.place.layout.cols}k{depth} (sums in tensor memory)"
        before = tuple(s for s in made.before if not (isinstance(s, p.Fill) and s.name == dot.acc))
        made = replace(made, products=products, before=before, may_be_empty=not _steps(made.loop),
                       places_of_part=made.places, taken_as=dot.place)  # fmt: skip
        return self._in_parts(made, dot.place.layout)

    def _in_parts(self, made: TensorPlan, whole_sum: Layout) -> TensorPlan:
        """``made`` with halves of the sum taken one after the other, where a whole one takes too many registers."""
        origin = self.origins[self.col]
        held, half = whole_sum.rows * whole_sum.cols // self.of.threads, whole_sum.cols // 2
        if held <= _MOST_HELD or half % (PANEL_SIDE * (self.of.warps // 4)) or not isinstance(origin, Name):
            return made
        part = self.names.fresh("part")
        layouts = {whole_sum: replace(whole_sum, cols=half)}
        note = f"first of {half} coordinates along {self.col}, of a half of the tile"
        moved = tuple(replace(s, value=add(s.value, multiply(Name(part), whole(half))), note=note)
                      if s.name == origin.name else s for s in made.places)  # fmt: skip
        return replace(p.relaid(made, layouts), loop=made.loop, parts_of_sum=2, part=part, places_of_part=moved)
