"""Walks whose operands lie in LDS as strips (``include/pk/strip.h``): any loop that multiplies tiles in registers by them.

What a step computes is what its plan says; strips change how its operands get to the matrix cores.  They are copied straight to
LDS where the device can, each is read once, while the one before is multiplied, and one barrier parts two steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan, Planner
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import substituted
from portakern.emit.clike.layouts import Layout, dims_of
from portakern.emit.clike.terms import ZERO, PlanTerm, is_zero, size_term
from portakern.ir import tile as t

from .plan import KeyStrip, asks_for_columns, by_fours
from .strips import Obstacle, features_of, need

WAVES, ALONE = 8, 4
"""Of a block whose waves take turns, and of one whose waves have their SIMDs to themselves."""
_ROOM = 240
"""Of the 256 registers of a wave that shares its SIMD: those for operands and sums, beside addresses."""
_VECTOR = 8
_ROWS = (32, 64)
_PATCHES = (16, 32)
"""Bytes of a strip that a thread may have to transpose on their way to LDS."""


@dataclass(frozen=True)
class Turns:
    """A step whose products are all done together: those ``ahead`` are the next tile's (and begin with 0), those ``behind`` use
    what is computed ``between`` them."""

    ahead: tuple[p.Statement, ...]
    between: tuple[p.Statement, ...]
    behind: tuple[p.Statement, ...]


@dataclass(frozen=True)
class Halves:
    """A step for a wave that has its SIMD to itself: what is computed stands beside products that do not hang on it.

    First the ``last`` product that the tile begins with and those of the tile before that are ``late``, beside ``early_rest``,
    which needs the others; then those that use that (``soon``) and the next tile's others (``ahead``), beside ``late_rest``.
    ``zeros`` are what late products multiply in the first step.
    """

    last: tuple[p.Statement, ...]
    late: tuple[p.Dot, ...]
    early_rest: tuple[p.Statement, ...]
    soon: tuple[p.Dot, ...]
    ahead: tuple[p.Statement, ...]
    late_rest: tuple[p.Statement, ...]
    zeros: tuple[p.Fill, ...]


@dataclass(frozen=True)
class StripWalk(p.Loop):
    """A loop whose pipeline copies ``strips``, of which ``extent`` lines exist; ``follows`` another one of the kernel."""

    strips: tuple[KeyStrip, ...] = ()
    extent: PlanTerm = ZERO
    direct: bool = False
    turns: Turns | None = None
    halves: Halves | None = None
    follows: bool = False

    def __str__(self) -> str:
        lines = [f"    {x}" for x in self.strips]
        if self.turns is not None:
            ahead, behind = sums_of(self.turns.ahead), sums_of(self.turns.behind)
            lines.append("    waves 4 to 7 are one barrier behind")
            lines.append(f"    some multiply {behind}, and {ahead} of the next tile, while the others do the rest")
        if self.halves is not None:
            x = self.halves
            first, second = names_of(x.early_rest), names_of(x.late_rest)
            lines.append(f"    multiply {sums_of(x.last)}, and {sums_of(x.late)} of the tile before, beside {first}")
            lines.append(f"    multiply {sums_of(x.soon)}, and {sums_of(x.ahead)} of the next tile, beside {second}")
        return "\n".join([super().__str__(), *lines])


def sums_of(part: Sequence[p.Statement]) -> str:
    return ", ".join(s.acc for s in part if isinstance(s, p.Dot)) or "nothing"


def names_of(part: Sequence[p.Statement]) -> str:
    return ", ".join(sorted(frozenset().union(*map(p.made, part))))


def with_strips(plan: KernelPlan, planner: Planner, target: Target) -> KernelPlan:
    """``plan`` with strips in its walks where that is possible."""
    if not target.device.has("mfma") or not any(isinstance(s, p.Loop) and s.pipeline for s in p.statements(plan.body)):
        return plan
    walks = _Walks(plan, planner, target)
    made = replace(plan, body=walks.block(plan.body), names=frozenset(walks.names.taken))
    slots = {name: x.slots for name, x in strips_of(made).items()}
    return replace(made, shared=tuple(replace(x, slots=slots.get(x.name, x.slots)) for x in made.shared))


def strips_of(plan: KernelPlan) -> dict[str, KeyStrip]:
    """The strips of all walks, by name."""
    return {x.name: x for s in p.statements(plan.body) if isinstance(s, StripWalk) for x in s.strips}


@dataclass(frozen=True)
class _Products:
    first: list[p.Dot]
    fills: dict[str, p.Fill]
    between: list[p.Statement]
    second: list[p.Dot]


class _Walks:
    def __init__(self, plan: KernelPlan, planner: Planner, target: Target) -> None:
        self.plan, self.planner, self.target, self.names = plan, planner, target, plan.free_names()
        self.layout = {s.name: s.place.layout for s in p.statements(plan.body) if isinstance(s, p.LoadTile | p.Map)}
        self.loads = {x.shared: op for (op, *_), x in planner.operands.items() if x.shared is not None}
        self.found = 0

    def block(self, body: Sequence[p.Statement]) -> tuple[p.Statement, ...]:
        return tuple(self._loop(s) if isinstance(s, p.Loop) else s for s in body)

    def _loop(self, loop: p.Loop) -> p.Loop:
        if loop.pipeline is None:
            return replace(loop, body=self.block(loop.body))
        try:
            body = tuple(by_fours(s) if isinstance(s, p.Map) and asks_for_columns(s) else s for s in loop.body)
            return self._walk(replace(loop, body=body), loop.pipeline)
        except Obstacle:
            return loop

    def _walk(self, loop: p.Loop, pipe: p.Pipeline) -> StripWalk:
        dots = [s for s in loop.body if isinstance(s, p.Dot)]
        inside = [s for s in p.statements(loop.body) if isinstance(s, p.Dot | p.Loop | p.StoreToShared)]
        need(len(dots) == len(inside) and pipe.slots == 2, "a step does more than multiply")
        need({s.b.shared for s in dots} == {c.shared for c in pipe.copies}, "an operand is not copied ahead")
        for s in dots:
            self._need_whole_rows(s)
        strips = tuple(self._strip(loop, c) for c in pipe.copies)
        load = self.loads[pipe.copies[0].shared]
        extent = size_term(self.planner.kernel.axis[dims_of(load)[0][0]].extent)
        given: dict[str, Any] = {f.name: getattr(loop, f.name) for f in fields(loop)}
        turns = self._turns(loop, strips)
        if turns is not None and self.direct:
            strips = tuple(replace(x, slots=3) for x in strips)
        halves = self._halves(loop, strips) if turns is None else None
        # What a wave with more registers than that reads may be moved while it is under way: the compiler has to see it.
        direct = self.direct and halves is None and (turns is not None or self._needed(loop) <= _ROOM)
        self.found += 1
        return StripWalk(**given, strips=strips, extent=extent, direct=direct, turns=turns, halves=halves,
                         follows=self.found > 1)  # fmt: skip

    def _products(self, loop: p.Loop) -> _Products | None:
        """The products of a step, where a tile's first ones can be had before what stands between."""
        made = frozenset().union(*map(p.made, loop.body))
        zeros = {s.name: s for s in loop.body if isinstance(s, p.Fill) and is_zero(s.value)}
        dots = [s for s in loop.body if isinstance(s, p.Dot)]
        first = [s for s in dots if s.acc in zeros and s.a.name not in made]
        second = [s for s in dots if s not in first]
        fills = {s.acc: zeros[s.acc] for s in first}
        between = [s for s in loop.body if s not in dots and s not in fills.values()]
        for s in second:  # what stands after one of them must not ask for its sum
            later = [x for x in loop.body[loop.body.index(s) :] if x in between]
            if s.acc in p.reads(later) or s.acc in frozenset().union(*map(p.made, later)):
                return None
        once = len({s.b.name for s in dots}) == len(dots)
        return _Products(first, fills, between, second) if first and second and once else None

    def _turns(self, loop: p.Loop, strips: Sequence[KeyStrip]) -> Turns | None:
        """How the waves take turns, where there are two for each SIMD and the order of a step allows it."""
        room, found = self.target.device.count("shared_bytes_per_block"), self._products(loop)
        fits = self._needed(loop) <= _ROOM and (not self.direct or 3 * sum(x.slot_bytes for x in strips) <= room)
        if self.plan.warps != WAVES or found is None or not fits:
            return None
        return Turns((*found.fills.values(), *found.first), tuple(found.between), tuple(found.second))

    def _halves(self, loop: p.Loop, strips: Sequence[KeyStrip]) -> Halves | None:
        """The same for a wave alone, where all that it holds leaves no room for another one."""
        found = self._products(loop)
        if self.plan.warps != ALONE or found is None or len(found.first) < 2 or self._needed(loop) <= _ROOM:
            return None
        *others, last = found.first
        hang, late_rest = {last.acc}, []
        for s in found.between:
            if hang & p.reads(s) or hang & p.made(s):
                late_rest.append(s)
                hang |= p.made(s)
        early_rest = [s for s in found.between if s not in late_rest]
        late = [s for s in found.second if s.a.name in hang]
        soon = [s for s in found.second if s not in late]
        makers = {s.name: s for s in late_rest if isinstance(s, p.Map)}
        if not late or any(s.a.name not in makers for s in late):
            return None
        given = [makers[s.a.name] for s in late]
        nothing = {s.name: p.Fill(s.name, s.dtype, s.place, self.planner.constant(0.0, s.dtype)) for s in given}
        late_rest = [replace(s, define=False) if isinstance(s, p.Map) and s in given else s for s in late_rest]
        ahead = (*(found.fills[s.acc] for s in others), *others)
        return Halves((found.fills[last.acc], last), tuple(late), tuple(early_rest), tuple(soon), ahead, tuple(late_rest),
                      tuple(nothing.values()))  # fmt: skip

    def _needed(self, loop: p.Loop) -> int:
        """Registers that a wave holds at once: of left operands, sums, tiles and vectors of a step, and parts of strips."""
        dots = [s for s in loop.body if isinstance(s, p.Dot)]
        made = frozenset().union(*map(p.made, loop.body))
        lefts = {s.a.name: self.layout[s.a.name] for s in dots if s.a.name not in made}
        sums = {s.acc: s.place.layout for s in dots}
        vectors = [s.place.layout.cols // 2 for s in loop.body if isinstance(s, p.LoadTile) and s.place.side == "col"]
        each = self.plan.threads
        kept = sum(x.rows * x.cols // each // 2 for x in lefts.values()) + sum(x.rows * x.cols // each for x in sums.values())
        read = max(s.b.shared.rows * s.b.shared.cols // 128 for s in dots if s.b.shared is not None)
        return kept + sum(vectors) + 2 * read  # one part of a strip is read while another is multiplied

    @property
    def direct(self) -> bool:
        return self.target.device.has("lds_dma_16")

    def _need_whole_rows(self, s: p.Dot) -> None:
        """Each wave has 32 rows, and holds the left operand as the strip's lanes hold its depths."""
        need(s.element in ("f16", "bf16"), "operands have not 16 bits")
        flushes = s.element == "f16" and self.target.device.has("f16_matrix_flushes")
        need(not flushes, "subnormal numbers of f16 are taken for zero")
        acc, shared = s.place.layout, s.b.shared
        assert shared is not None
        need(acc.kind == "accumulator32" and acc.rows == 32 * self.plan.warps, "a wave has not 32 rows")
        left: Layout | None = self.layout.get(s.a.name) if s.a.shared is None else None
        kind = "left32" if shared.transposed else "accumulator32"
        need(left is not None and left.kind == kind and not s.a.transposed, "the left operand lies otherwise")

    def _strip(self, loop: p.Loop, copy: p.CopyToShared) -> KeyStrip:
        shared, load = copy.shared, self.loads[copy.shared]
        need(isinstance(load, t.Load) and not copy.picks and shared.role == "B", "an operand is gathered")
        assert isinstance(load, t.Load)
        need(loop.step == shared.rows and shared.rows in _ROWS and shared.cols % 32 == 0 and shared.cols >= 64, "other tiles")
        share = shared.rows * shared.cols * DTYPES[shared.dtype].bytes // self.plan.threads
        patch = shared.transposed or self.direct or share in _PATCHES
        lines = self.plan.threads * _VECTOR // shared.cols  # that the block copies at a time
        whole = share >= 16 and share % 16 == 0 and (share == 16 or lines % 16 == 0)
        need(whole and patch, "threads have no whole vectors of a strip")
        features = features_of(self.planner.kernel, load, shared.rows)
        stem = shared.name.removesuffix("_shared")
        origin = substituted(copy.access.origin, {loop.var: ZERO})
        feed, reader, part = (self.names.fresh(f"{stem}_{what}") for what in ("feed", "reader", "part"))
        return KeyStrip(shared.name, shared.dtype, shared.rows, shared.cols, shared.transposed, origin, copy.access.strides[0],
                        features, share // 16, feed, reader, part)  # fmt: skip
