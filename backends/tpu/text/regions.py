"""The regions of a body: what starts a loop (first step), its body (every step), what finishes it (last step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from portakern.emit.python_like import names_in
from portakern.ir.core import Op
from portakern.ir.tile import For

from ..planning.kernel_plan import PallasKernelPlan, ScratchBuffer
from ..planning.loops import Phase
from ..planning.picks import picked_text
from ..syntax.expressions import SUM, PlacedExpr, infix

Line = tuple[str, str]
"""A line of the kernel and the operator's line behind it (``softmax.py:12``, or nothing)."""

_FIRST, _STEP, _LAST = "start", "step", "finish"
_INSIDE, _EDGE = "inside", "edge"  # steps of a walk in two parts: those that need no mask, and the others


@dataclass
class Region:
    """Statements that run under ``condition`` (empty: in every step)."""

    title: str
    condition: str = ""
    lines: list[Line] = field(default_factory=list)
    values: dict[Op, PlacedExpr] = field(default_factory=dict)
    coordinates: dict[tuple[str, int], PlacedExpr] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    loops: tuple[For, ...] = ()  # the loops around it
    around: Region | None = None  # what a part of it belongs to

    def add(self, line: str, where: str = "") -> None:
        self.lines.append((line, where))


@dataclass(frozen=True)
class KernelBody:
    """Finished text of a kernel's body, its scratch and the helpers it calls."""

    lines: tuple[Line, ...]
    scratch: tuple[ScratchBuffer, ...]
    helpers: tuple[str, ...]


@dataclass(frozen=True)
class RegionWork:
    """What a region does: its operations, the loop whose values it starts, the loop that it steps."""

    region: Region
    ops: Sequence[Op]
    starts: For | None = None
    ends: For | None = None


class Regions:
    """Makes the regions of a plan, in order, and joins what was written in them."""

    def __init__(self, plan: PallasKernelPlan, reserved: set[str]) -> None:
        self.plan = plan
        self.reserved = reserved
        self.regions: list[Region] = []
        self.work = [w for number, phase in enumerate(plan.phases) for w in self._of(phase, number)]

    def _of(self, phase: Phase, number: int) -> list[RegionWork]:
        """The regions of a phase in order."""
        if not phase.loops:
            return [RegionWork(self._region("all", ()), phase.inside)]
        here = [f"phase == {number}"] if self.plan.phase else []
        depths = range(len(phase.loops))
        guards = [self._guard(loop) for loop in phase.loops]
        dims = [d for d in self.plan.grid if d.kind == "loop"]
        idle = [f"{d.name} == 0" for d in dims[len(phase.loops):]]
        work = []
        for d in depths:
            at_first = [f"{dims[x].name} == 0" for x in depths if x >= d]
            outer = [g for g in guards[:d] if g]
            work.append(RegionWork(self._region(_FIRST, [*here, *outer, *at_first, *idle], phase.loops[:d]), phase.before[d],
                             starts=phase.loops[d]))
        *outer_guards, guard = guards
        titles = (_STEP,) if not phase.then else (_INSIDE, *(_EDGE for _ in phase.then))
        for title, loop in zip(titles, (phase.loops[-1], *phase.then), strict=True):
            now = guard if loop is phase.loops[-1] else self._guard(loop)
            region = self._region(title, [*here, *(g for g in (*outer_guards, now) if g), *idle], phase.loops)
            work.append(RegionWork(region, loop.body.ops, ends=loop))
        for d in reversed(depths):
            at_last = [self._is_last(phase.loops[x], dims[x].name) for x in depths if x >= d]
            outer = [g for g in guards[:d] if g]
            work.append(RegionWork(self._region(_LAST, [*here, *outer, *at_last, *idle], phase.loops[:d]), phase.after[d],
                             ends=phase.loops[d - 1] if d else None))
        return work

    def _region(self, title: str, conditions: Sequence[str], loops: tuple[For, ...] = ()) -> Region:
        condition = conditions[0] if len(conditions) == 1 else " & ".join(f"({c})" for c in conditions)
        if len(self.plan.phases) > 1:
            title = f"{title}_{sum(r.title.startswith(title) for r in self.regions)}"
        region = Region(title, condition, names=set(self.reserved), loops=loops)
        self.regions.append(region)
        return region

    def _guard(self, loop: For) -> str:
        """When a step of a loop does something: inside its bounds, and inside its own number of steps."""
        span = self.plan.spans[loop.axis]
        index = PlacedExpr(span.start, None, 0 if span.start.isidentifier() else 3)
        parts = []
        if loop.lo is not None:
            low = infix("//", self._scalar(loop.lo), PlacedExpr(span.text)) if span.size > 1 else self._scalar(loop.lo)
            parts.append(infix(">=", PlacedExpr(span.dim or "0"), low))
        dim = next(d for d in self.plan.grid if d.name == span.dim)
        if loop.hi is not None:
            parts.append(infix("<", index, self._scalar(loop.hi)))
        if len(dim.axes) > 1 or not isinstance(span.axis.extent, int):
            parts.append(infix("<", index, PlacedExpr(str(span.axis.extent), None, SUM)))
        if len(parts) <= 1:
            return parts[0].text if parts else ""
        return " & ".join(f"({p.text})" for p in parts)

    def _is_last(self, loop: For, dim: str) -> str:
        span = self.plan.spans[loop.axis]
        number = next(n for n, d in enumerate(self.plan.grid) if d.name == dim)
        if len(self.plan.grid[number].axes) > 1:
            return f"{dim} == {span.last}"
        return f"{dim} == pl.num_programs({number}) - 1"

    def _scalar(self, op: Op) -> PlacedExpr:
        return picked_text(op, self.plan.spans) or PlacedExpr("0")

    def assembled(self, kept: Sequence[ScratchBuffer], helpers: Sequence[str]) -> KernelBody:
        lines: list[Line] = []
        for region in self.regions:
            if not region.lines:
                continue
            lines += [("", "")] if lines else []
            if region.condition:
                lines += [(f"@pl.when({region.condition})", ""), (f"def {region.title}():", "")]
            indent = "    " if region.condition else ""
            lines += [(f"{indent}{text}" if text else "", where) for text, where in region.lines]
        text = "\n".join(line for line, _ in lines)
        names = names_in(text)
        head = [(f"{d.name} = pl.program_id({n})", "") for n, d in enumerate(self.plan.grid) if d.name in names]
        if head and text.startswith("@"):
            head.append(("", ""))
        scratch = tuple(dict.fromkeys([*self.plan.slots.values(), *kept]))
        return KernelBody((*head, *lines), scratch, tuple(helpers))
