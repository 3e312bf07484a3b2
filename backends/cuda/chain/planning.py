"""The plan of products of products by warpgroups, from the plain plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from portakern.backend import Target
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, is_zero
from portakern.errors import ScheduleError
from portakern.ir import tile as t

from ..attention.plan import Fetch, Pack, Ring
from ..attention.planning import Obstacle, loaded, need, operands_of, unpacked
from ..hopper.planning import coordinate, described, obstacle_to_map, origins_of
from ..plans import CudaKernelPlan, scratch_bytes
from ..under_way import AsyncProduct, Feed, StartProducts, Take, ordered
from .order import in_good_order
from .plan import ChainPlan, Room

PRODUCTS = "wgmma.m64nNk16 (left operands in shared memory or, where a product made them, in registers)"

ALIGNMENT = 1024
"""Bytes that the rings may begin behind what tiles are exchanged through."""

_ALONE = (p.Scalar, p.Map, p.Fill, p.LoadTile, p.StoreTile, p.Assign)
"""Statements that need no barrier of the block."""

_STAGING = (p.CopyToShared, p.Commit, p.Wait, p.Sync)
"""What the plain plan brings operands with."""


def fed_chain(plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> CudaKernelPlan:
    """``plan`` with a producer and warpgroups where that is possible and not forbidden.

    Raises :class:`ScheduleError` where the schedule asks for it and it cannot be had.
    """
    asked = [str(kernel.schedule.option(name, "auto")) for name in ("mma", "copies")]
    if "sync" in asked or "threads" in asked:
        return plan
    try:
        return _Chain(plan, kernel, target).plan()
    except Obstacle as obstacle:
        if not {"engine", "wgmma"} & {*asked}:
            return plan
        raise ScheduleError(f"the products of {kernel.name} cannot be fed to warpgroups on {target}: {obstacle}",
                            hint="take mma=sync, or other tiles", schedule=str(kernel.schedule)) from None  # fmt: skip


class _Chain:
    """Takes the plain plan apart: what is brought, the products of a step, what is between them and around."""

    def __init__(self, plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> None:
        self.of, self.kernel, self.target = plan, kernel, target
        need(all(map(target.device.has, ("tma", "wgmma"))), f"{target.device.name} has no wgmma or no copy engine")
        need(plan.warps in (4, 8), "its consumers are one or two warpgroups")
        self.body = tuple(map(_carried_in_place, plan.body))
        self.dots = [s for s in p.statements(self.body) if isinstance(s, p.Dot)]
        self.names = plan.free_names()
        self.axis_of = self._loops()
        self.loads = self._loads()
        for dot in self.dots:
            self._check(dot)
        self.rings = {s: self._ring(s) for s in plan.shared}
        room = target.device.count("shared_bytes_per_block") - ALIGNMENT
        taken = sum(ring.bytes + ring.barrier_bytes for ring, _ in self.rings.values()) + scratch_bytes(plan)
        need(taken <= room, f"{taken} bytes of shared memory are more than a block has")
        self.tiles = {s: self.names.fresh(f"{self._stem(s)}_slot") for s in plan.shared}

    def plan(self) -> ChainPlan:
        rings = tuple(ring for ring, _ in self.rings.values())
        at = origins_of(self.of, self.kernel)
        producer = _used(self._produced(self.body, at))
        consumers = _used(self._consumed(self.body))
        unknown = p.reads(producer) - _made(producer) - {q.name for q in self.of.params} - {s.name for s in self.of.shared}
        need(not unknown, f"where its loops begin or end is computed by all warps ({', '.join(sorted(unknown))})")
        dtypes = {q.source: q.dtype for q in self.of.params}
        params = [p.KernelParam(r.map.name, dtypes[r.map.array], "map", source=r.map.name) for r in rings]
        brought, kept = {r.map.array for r in rings}, p.reads(consumers, producer, rings)
        params += [q for q in self.of.params if q.role != "array" or q.source not in brought or q.name in kept]
        values = {**vars(self.of), "params": tuple(params), "shared": (), "products": PRODUCTS}
        return ChainPlan(**values, rings=rings, producer=producer, consumers=consumers)

    # ---- what it needs

    def _loops(self) -> dict[str, str]:
        """The axis along which each loop walks, by its variable."""
        loops = [s for s in p.statements(self.body) if isinstance(s, p.Loop)]
        walks = [op for op in tiles_of(self.kernel.body) if isinstance(op, t.For)]
        need(len(loops) == len(walks), "its loops are not those of the kernel")
        return {x.var: w.axis for x, w in zip(loops, walks, strict=True)}

    def _loads(self) -> dict[p.Shared, t.Load]:
        """What each operand in shared memory is loaded by."""
        ops = [op for op in tiles_of(self.kernel.body) if isinstance(op, t.Dot)]
        need(len(ops) == len(self.dots), "its products are not those of the kernel")
        found: dict[p.Shared, t.Load] = {}
        for dot, op in zip(self.dots, ops, strict=True):
            for operand, source in zip((dot.a, dot.b), operands_of(op, dims_of(op)[0][0]), strict=True):
                if operand.shared is not None:
                    load = loaded(source)
                    other = found.setdefault(operand.shared, load)
                    need((other.buffer, other.indices) == (load.buffer, load.indices), "an operand is read at several places")
        need({*found} == {*self.of.shared}, "an operand is copied and not multiplied")
        return found

    def _check(self, dot: p.Dot) -> None:
        need(dot.element in ("bf16", "f16") and dot.precision == "ieee", "its operands have 16 bits")
        layout = dot.place.layout
        need(layout.rows == 16 * self.of.warps, f"{self.of.warps} warps do not hold {layout.rows} rows, 16 each")
        need(layout.cols % 64 == dot.depth % 64 == 0, "its tiles are no multiples of 64")
        need(dot.b.shared is not None, "a right operand comes from another product")

    def _stem(self, shared: p.Shared) -> str:
        return shared.name.removesuffix("_shared")

    def _ring(self, shared: p.Shared) -> tuple[Ring, list[t.Index]]:
        """The ring for an operand, without its place, and the coordinates of its batches."""
        load, stem = self.loads[shared], self._stem(shared)
        dims = [axis for axis, _ in dims_of(load)]
        need(len(dims) == 2 and not load.gathers and shared.rows <= 256, f"{stem} is no box")
        obstacle = obstacle_to_map(load, dims, self.kernel)
        need(not obstacle, obstacle)
        spec, batch = described(load, dims, self.names.fresh(f"{stem}_map"), (shared.rows, 64))
        return Ring(self.names.fresh(f"{stem}_ring"), shared, spec, shared.slots, ()), batch

    # ---- the producer

    def _produced(self, block: Sequence[p.Statement], at: Mapping[str, PlanTerm]) -> Iterator[p.Statement]:
        for s in block:
            if isinstance(s, p.Scalar):
                yield s
            elif isinstance(s, p.CopyToShared):
                yield self._fetch(s, at)
            elif isinstance(s, p.Loop):
                inside = {**at, self.axis_of[s.var]: Name(s.var)}
                copies = s.pipeline.copies if s.pipeline else ()
                body = (*self._produced(s.body, inside), *(self._fetch(x, inside) for x in copies))
                yield replace(s, body=body, pipeline=None, note="")

    def _fetch(self, copy: p.CopyToShared, at: Mapping[str, PlanTerm]) -> Fetch:
        need(not copy.picks, "an operand is gathered")
        ring, batch = self.rings[copy.shared]
        dims = [axis for axis, _ in dims_of(self.loads[copy.shared])]
        place = (*(at.get(x, ZERO) for x in dims), *(coordinate(i, lambda x: at.get(x, ZERO)) for i in reversed(batch)))
        return Fetch(replace(ring, at=place))

    # ---- the consumers

    def _consumed(self, block: Sequence[p.Statement], outermost: bool = True) -> Iterator[p.Statement]:
        for s in block:
            if isinstance(s, p.Loop):
                body = self._step(s) if s.pipeline is not None else tuple(self._consumed(s.body, outermost=False))
                yield replace(s, body=body, pipeline=None, note="")
            elif isinstance(s, p.CopyToShared):
                need(outermost, "an operand is brought in a step of an outer loop")
                yield Take(self.tiles[s.shared], self._feed(s.shared), kept=True)
            elif not isinstance(s, _STAGING):
                need(not isinstance(s, p.Dot), "a product is not in a loop whose operands are copied ahead")
                yield s if isinstance(s, p.Relayout) else _alone(s)

    def _feed(self, shared: p.Shared) -> Feed:
        return Feed(self.rings[shared][0].name)

    def _step(self, loop: p.Loop) -> tuple[p.Statement, ...]:
        """A step, whose products are complete when it ends."""
        assert loop.pipeline is not None
        brought = [copy.shared for copy in loop.pipeline.copies]
        body = in_good_order(loop.body)
        dots = [s for s in body if isinstance(s, p.Dot)]
        last = {x.shared: s for s in dots for x in (s.a, s.b) if x.shared in brought}
        need(len(last) == len(brought), "an operand is brought and not multiplied")
        anew = {s.name for s in body if isinstance(s, p.Fill) and is_zero(s.value) and _begins(s, dots)}
        packed = {s.a.name: self.names.fresh(f"{s.a.name}_packed") for s in dots if s.a.shared is None}
        made: list[p.Statement] = []
        held: set[p.Shared] = set()
        for s in body:
            if isinstance(s, p.Dot):
                new = [x.shared for x in (s.a, s.b) if x.shared in brought and x.shared not in held]
                made += [Take(self.tiles[x], self._feed(x), kept=True) for x in new if x is not None]
                held |= {x for x in new if x is not None}
                feeds = tuple(self._feed(x) for x, user in last.items() if x is not None and user is s)
                made.append(StartProducts((self._product(s, s.acc in anew, packed, feeds),)))
            elif isinstance(s, p.Fill) and s.name in anew:
                made.append(Room(s.name, s.place))
            elif isinstance(s, p.Map) and s.name in packed:
                readers = [x for x in body if x is not s and s.name in p.reads(x)]
                need(all(isinstance(x, p.Dot) for x in readers), "a left operand is needed otherwise, too")
                kept = unpacked(s)
                value = Name(kept[0].name) if kept else s.args[0]  # type: ignore[attr-defined]
                made += [*kept, Pack(packed[s.name], s.dtype, value, define=True)]
            else:
                made.append(_alone(s))
        need(not {*packed} - {s.name for s in body if isinstance(s, p.Map)}, "a left operand comes from outside of the step")
        return ordered(made)

    def _product(self, s: p.Dot, anew: bool, packed: Mapping[str, str], feeds: tuple[Feed, ...]) -> AsyncProduct:
        left, right = (p.Operand(self.tiles[x.shared] if x.shared else packed[x.name], transposed=x.transposed)
                       for x in (s.a, s.b))  # fmt: skip
        return AsyncProduct(s.acc, left, right, feeds, () if s.a.shared else (left.name,), anew)


def _begins(fill: p.Fill, dots: Sequence[p.Dot]) -> bool:
    """Whether ``fill`` is where a product of operands in shared memory begins, the only one that is summed there."""
    mine = [s for s in dots if s.acc == fill.name]
    return len(mine) == 1 and mine[0].a.shared is not None


def _alone(s: p.Statement) -> p.Statement:
    """``s``, which needs no barrier of the block."""
    if isinstance(s, p.Reduce):
        inside = s.gone == "cols" and s.source.side == "tile" and s.source.layout.kind == "accumulator"
        need(inside and s.into == s.made, f"the reduction {s.name} crosses warps")
    elif isinstance(s, p.Relayout):
        rows = s.word == "relayout" and s.place.side == "row" and s.place.layout.kind == "accumulator"
        need(s.word == "copy" or rows, f"{s.name} changes its layout")
    else:
        need(isinstance(s, _ALONE), f"it has a {p.kind(s)}")
    return s


def _carried_in_place(s: p.Statement) -> p.Statement:
    """A loop that copies what it carries at the beginning of each step, and copies it back at the end, does so no more."""
    if not isinstance(s, p.Loop):
        return s
    body = tuple(map(_carried_in_place, s.body))
    for copy in body:
        if not (isinstance(copy, p.Relayout) and copy.word == "copy" and isinstance(copy.value, Name)):
            continue
        back, outer = p.Assign(copy.value.name, Name(copy.name)), copy.value.name
        rest = tuple(x for x in body if x not in (copy, back))
        if len(rest) == len(body) - 2 and not any(outer in p.reads(x) for x in rest):
            body = tuple(p.renamed(x, {copy.name: outer}) for x in rest)
    return replace(s, body=body)


def _used(block: Iterator[p.Statement]) -> tuple[p.Statement, ...]:
    """``block`` without the scalars that nobody reads."""
    found = tuple(block)
    while True:
        wanted = p.reads(found)
        left = _without(found, wanted)
        if left == found:
            return found
        found = left


def _made(block: Sequence[p.Statement]) -> set[str]:
    """Names that ``block`` makes, its loops' variables among them."""
    return {name for s in p.statements(block) for name in (*p.made(s), *((s.var,) if isinstance(s, p.Loop) else ()))}


def _without(block: Sequence[p.Statement], wanted: frozenset[str]) -> tuple[p.Statement, ...]:
    kept = (s for s in block if not isinstance(s, p.Scalar) or s.name in wanted)
    return tuple(replace(s, body=_without(s.body, wanted)) if isinstance(s, p.Loop) else s for s in kept)
