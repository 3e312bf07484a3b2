"""Walks whose operands lie in LDS as strips (``include/pk/strip.h``): any loop that multiplies tiles in registers by them.

What a step computes is what its plan says; strips change how its operands get to the matrix cores.  They are copied straight to
LDS where the device can, each is read once, while the one before is multiplied, and one barrier parts two steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from portakern.backend import Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan, Planner, Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import substituted
from portakern.emit.clike.layouts import Layout, dims_of
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import ZERO, PlanTerm, number, size_term
from portakern.ir import tile as t

from .plan import KeyStrip
from .strips import Obstacle, features_of, need

_ROWS = (32, 64)
_PATCHES = (16, 32)
"""Bytes of a strip that a thread may have to transpose on their way to LDS."""


@dataclass(frozen=True)
class StripWalk(p.Loop):
    """A loop whose pipeline copies ``strips``, of which ``extent`` lines exist."""

    strips: tuple[KeyStrip, ...] = ()
    extent: PlanTerm = ZERO
    direct: bool = False

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"    {x}" for x in self.strips)])


def with_strips(plan: KernelPlan, planner: Planner, target: Target) -> KernelPlan:
    """``plan`` with strips in its walks where that is possible."""
    if not target.device.has("mfma") or not any(isinstance(s, p.Loop) and s.pipeline for s in p.statements(plan.body)):
        return plan
    walks = _Walks(plan, planner, target)
    body = walks.block(plan.body)
    return replace(plan, body=body, names=frozenset(walks.names.taken))


def strips_of(plan: KernelPlan) -> dict[str, KeyStrip]:
    """The strips of all walks, by name."""
    return {x.name: x for s in p.statements(plan.body) if isinstance(s, StripWalk) for x in s.strips}


class _Walks:
    def __init__(self, plan: KernelPlan, planner: Planner, target: Target) -> None:
        self.plan, self.planner, self.target, self.names = plan, planner, target, plan.free_names()
        self.layout = {s.name: s.place.layout for s in p.statements(plan.body) if isinstance(s, p.LoadTile | p.Map)}
        self.loads = {x.shared: op for (op, *_), x in planner.operands.items() if x.shared is not None}

    def block(self, body: Sequence[p.Statement]) -> tuple[p.Statement, ...]:
        return tuple(self._loop(s) if isinstance(s, p.Loop) else s for s in body)

    def _loop(self, loop: p.Loop) -> p.Loop:
        if loop.pipeline is None:
            return replace(loop, body=self.block(loop.body))
        try:
            return self._walk(loop, loop.pipeline)
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
        return StripWalk(**given, strips=strips, extent=extent, direct=self.direct)

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
        need(share >= 16 and share % 16 == 0 and patch, "threads have no whole vectors of a strip")
        features = features_of(self.planner.kernel, load, shared.rows)
        stem = shared.name.removesuffix("_shared")
        origin = substituted(copy.access.origin, {loop.var: ZERO})
        names = [self.names.fresh(f"{stem}_{what}") for what in ("feed", "reader", "part")]
        return KeyStrip(shared.name, shared.dtype, shared.rows, shared.cols, shared.transposed, origin, copy.access.strides[0],
                        features, share // 16, *names)  # fmt: skip


def loaded_ahead(loop: p.Loop) -> tuple[list[p.LoadTile], list[p.Statement]]:
    """Vectors that a step of ``loop`` loads, whose addresses follow from its number, and what else it does.

    Loads arrive in the order in which they set out: a vector that is used at once would wait for the next step's operands.
    """
    scalars: dict[str, PlanTerm] = {}
    for s in loop.body:
        if isinstance(s, p.Scalar) and s.define:
            scalars[s.name] = substituted(s.value, scalars)
    made = frozenset().union(*map(p.made, loop.body)) - scalars.keys()
    found: list[p.LoadTile] = []
    for s in loop.body:
        if isinstance(s, p.LoadTile) and s.define and s.place.side != "tile" and not s.picks:
            ahead = substituted(s, scalars)
            if made.isdisjoint(p.reads(ahead)):
                found.append(ahead)
    names = {s.name for s in found}
    return found, list(p.used([s for s in loop.body if not (isinstance(s, p.LoadTile) and s.name in names)], loop.pipeline))


# ---- text --------------------------------------------------------------------------------------------------------------


def strip_type(printer: Printer, s: KeyStrip, threads: int) -> str:
    way = "cols" if s.straight else "rows"
    return f"pk::Strip<{printer.dialect.type(s.dtype)}, {s.rows}, {s.cols}, pk::Depth::along_{way}, {threads}>"


def print_walk(printer: Printer, k: StripWalk) -> list[str]:
    fresh = printer.names.fresh
    known = number(k.begin) == 0
    first, end = "0" if known else fresh(f"first_{k.var}"), fresh(f"end_{k.var}")
    vectors, body = loaded_ahead(k)
    ahead = {v.name: fresh(f"{v.name.removesuffix('_tile')}_next") for v in vectors}
    begin = [f"const int64_t {end} = {k.end};", *([] if known else [f"const int64_t {first} = {k.begin};"])]
    for x in k.strips:
        begin += [f"pk::StripFeed {x.feed}({x.name}, {x.origin}, {x.stride}, {k.extent}, {x.features});",
                  f"pk::StripReader {x.reader}({x.name});",
                  f"decltype({x.reader})::Part {x.part};  // what this wave holds of a tile"]  # fmt: skip
    begin += [f"pk::Tile<{printer.dialect.type(v.dtype)}, {printer.place(v.place)}> {ahead[v.name]};" for v in vectors]
    load = fresh("load_vectors")
    if vectors:
        loads = [x for v in vectors for x in printer.on_LoadTile(replace(v, name=ahead[v.name], define=False))]
        begin += [f"const auto {load} = [&](int64_t {k.var}) PK_INLINE {{", *indented(loads), "};"]
    next_ = f"{k.var} + {k.step}"
    starts = "start" if k.direct else "fetch"
    begin += [f"if ({first} < {end}) {load}({first});"] if vectors else []
    begin += [" ".join(f"{x.feed}.{starts}({first});" for x in k.strips)]
    put = " ".join(f"{x.feed}.put();" for x in k.strips)
    begin += [] if k.direct else [put]
    step = [
        "pk::wait_for_copies<0>();" if k.direct else "pk::wait_for_lds();",
        "pk::turn();  // this step's operands are complete, and the other slot has been read",
        *(f"auto {v.name} = {ahead[v.name]};" for v in vectors),
        *([f"if ({next_} < {end}) {load}({next_});"] if vectors else []),
        " ".join(f"{x.feed}.{starts}({next_});" for x in k.strips),
        *_body(printer, body, {x.name: x for x in k.strips}),
        *([] if k.direct else [put]),
    ]
    head = f"for (int64_t {k.var} = {first}; {k.var} < {end}; {k.var} += {k.step}) {{"
    return [*begin, "#pragma unroll 1", head, *indented(step), "}", *(["pk::wait_for_copies<0>();"] if k.direct else [])]


def _body(printer: Printer, body: Sequence[p.Statement], strips: Mapping[str, KeyStrip]) -> list[str]:
    """Each strip is read while what stands before its product is computed."""
    order = list(dict.fromkeys(strips[s.b.name].name for s in body if isinstance(s, p.Dot)))
    lines = [_read(strips[order[0]])]
    arrived = 0
    for s in body:
        if not isinstance(s, p.Dot):
            lines += printer.statements([s])
            continue
        x = strips[s.b.name]
        if arrived < len(order) and order[arrived] == x.name:
            arrived += 1
            word = "arrived_meanwhile" if arrived > 1 else "arrived"
            lines += [f"pk::{word}({x.part});", *([_read(strips[order[arrived]])] if arrived < len(order) else [])]
        lines.append(f"pk::dot({s.acc}, {s.a.name}, {x.part});")
    return lines


def _read(x: KeyStrip) -> str:
    return f"{x.reader}.read({x.part});"
