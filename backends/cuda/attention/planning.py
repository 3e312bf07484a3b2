"""The plan of attention as a walk of warpgroups, from the plain plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from portakern.backend import Target, TensorMap
from portakern.dtypes import DTYPES
from portakern.emit.clike import plan as p
from portakern.emit.clike.grid import note_of, unfolded
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.emit.clike.terms import ZERO, Apply, Name, PlanTerm, Word, add, is_zero, multiply, size_term, whole
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.size import Size, divides, product

from ..hopper.plan import PANEL_SIDE, WARPGROUP, SendTile
from ..hopper.planning import MOST_DIMS, UNITS, buffer_name, coordinate, described, obstacle_to_map, origins_of
from ..plans import CudaKernelPlan
from .pages import PagedLoad, Pages, paged
from .plan import ComputedHere, JoinRows, Rescale, Ring, WalkPlan, WalkSteps

CACHE_SHARE = 32 << 20
"""Bytes of keys and values that heads taken at a time may have, so that they stay in L2 (50 MB on H100 and H200)."""

_ALONE = (p.Scalar, p.Map, p.Fill, p.LoadTile, p.Assign)
"""Statements that need no barrier of the block."""

_MOST_HEADS, _OPEN_HEADS = 64, 16


class Obstacle(Exception):
    """Why a kernel cannot be a walk of warpgroups."""


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise Obstacle(otherwise)


def loaded(op: Op) -> t.Load:
    """``op``, which memory must hold: the copy engine computes nothing."""
    if not isinstance(op, t.Load):
        raise Obstacle("an operand is computed, and not brought from memory")
    return op


class Walk:
    """Takes the plain plan apart: products, what makes weights of scores, what rescales the sum, what surrounds the walk."""

    kind: type[WalkPlan] = WalkPlan
    unit, rows_of_a_warp, panel_rows = "wgmma", 16, PANEL_SIDE
    products = "wgmma.m64nNk16 (scores of operands in shared memory, sums of weights in registers)"

    def __init__(self, plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> None:
        self.of, self.kernel, self.target = plan, kernel, target
        has = all(map(target.device.has, ("tma", self.unit)))
        need(has, f"{target.device.name} has no {self.unit} or no copy engine")
        need(plan.warps in (4, 8), "its consumers are one or two warpgroups")
        self.loops = [s for s in plan.body if isinstance(s, p.Loop)]
        need(self.loops and kernel.schedule.stages > 1, "its keys are not copied ahead of their use")
        dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
        need(len(dots) == 2 * len(self.loops), "a step is not two products")
        self.score, self.sum = dots[:2]
        self.row, self.key = (axis for axis, _ in dims_of(self.score))
        self.walks = [op for op in kernel.body.walk() if isinstance(op, t.For)]
        self.origins = origins_of(plan, kernel)
        self.sums, self.own = self._sums()
        self.names = plan.free_names()

    @property
    def lags(self) -> bool:
        """Whether only steps in which maxima have grown scale the sum."""
        return "lag" in dict(self.kernel.schedule.options)

    def plan(self) -> WalkPlan:
        first = self.of.body.index(self.loops[0])
        last = self.of.body.index(self.loops[-1])
        steps = [self._dots(loop) for loop in self.loops]
        score, total = steps[0]
        self._check(score, total)
        scores, weights = self.names.fresh("scores"), self.names.fresh("weights")
        rings = self._rings(score, total)
        places, skipped = self._places()
        made = [self._part(n, *dots, scores, weights) for n, dots in enumerate(steps)]
        parts = (made[0], *(_named_like(part, made[0]) for part in made[1:]))
        joins = (JoinRows(name, score.place.layout) for name in self.sums)
        after = (*joins, *self._after(self.of.body[last + 1 :], sum(r.bytes for r in rings)))
        before = [s for s in self.of.body[skipped:first] if not isinstance(s, p.CopyToShared | p.Commit | p.Wait | p.Sync)]
        before = [s for s in before if s not in self._bounds(0)]
        self._alone([*before, *(s for s in after if not isinstance(s, JoinRows))])
        walk = [x for part in parts for x in (*part.bounds, *part.soften, *part.settled, *part.rescale, part.begin, part.end)]
        before = p.used(before, walk, after)
        sent = [s.map for s in after if isinstance(s, SendTile) and s.map is not None]
        maps = [*(r.map for r in rings), *sent]
        dtypes = {q.source: q.dtype for q in self.of.params}
        kept = p.reads(before, walk, rings, [s for s in after if not isinstance(s, SendTile)])
        described_ = {m.array for m in maps}
        params = [p.KernelParam(m.name, dtypes[m.array], "map", source=m.name) for m in maps]
        params += [q for q in self.of.params if q.role != "array" or q.source not in described_ or q.name in kept]
        rows, heads = self.kernel.axis[self.row].steps, self._heads()
        values: dict[str, Any] = {
            **vars(self.of), "params": tuple(params), "shared": (), "blocks": self._blocks(rows, heads),
            "products": self.products,
        }  # fmt: skip
        return self.kind(
            **values, group=self._group(heads), last_first=self._reaches_farther(), rows=rows, heads=heads, places=places,
            query=rings[0], keys=rings[1], values=rings[2], score_layout=score.place.layout.name, element=score.element,
            scores=scores, weights=weights, acc=total.acc, key_transposed=score.b.transposed,
            value_transposed=total.b.transposed, before=tuple(before), parts=parts, after=after,
        )  # fmt: skip

    # ---- products

    def _dots(self, loop: p.Loop) -> tuple[p.Dot, p.Dot]:
        found = [s for s in loop.body if isinstance(s, p.Dot)]
        need(len(found) == 2 and loop.pipeline is not None and len(loop.pipeline.copies) == 2, "a step is not two products")
        score, total = found
        in_registers = score.a.shared and score.b.shared and not total.a.shared and total.b.shared
        need(in_registers, "its weights do not stay in registers")
        return score, total

    def _check(self, score: p.Dot, total: p.Dot) -> None:
        need(score.element in ("bf16", "f16") and total.element == score.element, "its operands have 16 bits")
        rows, each = score.place.layout.rows, self.rows_of_a_warp
        hold = rows == each * self.of.warps == total.place.layout.rows
        need(hold, f"{self.of.warps} warps do not hold {rows} rows, {each} each")
        sizes = (score.place.layout.cols, total.place.layout.cols, score.depth)
        need(all(n % 64 == 0 for n in sizes), "its tiles of keys and features are no multiples of 64")

    def _rings(self, score: p.Dot, total: p.Dot) -> tuple[Ring, Ring, Ring]:
        """For queries, keys and values; queries have a second slot where that leaves room for the result's panels."""
        stages = self.kernel.schedule.stages
        left, right = map(loaded, operands_of(self.score, self.row))
        value = loaded(operands_of(self.sum, self.row)[1])
        keys, values = (self._ring(x, op, stages) for x, op in ((score.b, right), (total.b, value)))
        room = self._room() - keys.bytes - values.bytes
        query = self._ring(score.a, left, 1)
        need(query.bytes <= room, "its operands have no room in shared memory")
        panels = self._panel_bytes()
        return (replace(query, slots=2) if 2 * query.bytes + panels <= room else query), keys, values

    def _room(self) -> int:
        return self.target.device.count("shared_bytes_per_block") - 2048

    def _ring(self, operand: p.Operand, load: t.Load, slots: int) -> Ring:
        assert operand.shared is not None
        shared, dims, stem = operand.shared, [axis for axis, _ in dims_of(load)], buffer_name(load)
        need(shared.rows <= 256, f"{shared.name} has more rows than a box")
        of_pages = paged(load, self.key, shared.rows) if load.gathers else None
        if isinstance(of_pages, str):
            raise Obstacle(f"{stem}: {of_pages}")
        plain, height = (of_pages.plain, min(of_pages.height, shared.rows)) if of_pages else (load, shared.rows)
        obstacle = obstacle_to_map(plain, dims, self.kernel)
        need(not obstacle, obstacle)
        spec, batch = described(plain, dims, self.names.fresh(f"{stem}_map"), (height, 64))
        at = (*map(self._at, dims), *(coordinate(i, self._at) for i in reversed(batch)))
        pages = None
        if of_pages is not None:
            spec, pages = self._by_page(spec, load, of_pages)
        return Ring(self.names.fresh(f"{stem}_ring"), shared, spec, slots, at, pages)

    def _by_page(self, spec: TensorMap, load: t.Load, of: PagedLoad) -> tuple[TensorMap, Pages]:
        """The map with the pages as its outermost dim, and where their numbers are."""
        have, table = t.buffer_type(load.buffer), t.buffer_type(of.table.buffer)
        among, apart = have.shape[of.page], have.element_strides[of.page]
        first = Name(buffer_name(of.table))
        for n, (index, stride) in enumerate(zip(of.table.indices, table.element_strides, strict=True)):
            if n != of.entry:
                need(not index.axes or self.key not in index.axes, "its table is read otherwise")
                first = add(first, multiply(coordinate(index, self._at), size_term(stride)))
        granule = 16 // DTYPES[have.dtype].bytes
        need(divides(granule, apart) and len(spec.shape) < MOST_DIMS, "its pages lie otherwise than the copy engine can go")
        spec = replace(spec, shape=(among, *spec.shape), strides=(apart, *spec.strides), box=(1, *spec.box))
        return spec, Pages(first, table.shape[of.entry], table.element_strides[of.entry], of.height, among)

    def _at(self, axis: str) -> PlanTerm:
        return Name(self.loops[0].var) if axis == self.key else self.origins.get(axis, ZERO)

    # ---- a step

    def _bounds(self, number: int) -> list[p.Statement]:
        """Where a loop ends, if that is computed."""
        loop = self.loops[number]
        return [s for s in self.of.body if isinstance(s, p.Scalar) and Name(s.name) == loop.end]

    def _part(self, number: int, score: p.Dot, total: p.Dot, scores: str, weights: str) -> WalkSteps:
        loop, bounds = self.loops[number], self._bounds(number)
        body = list(loop.body)
        at, end = body.index(score), body.index(total)
        start = next((s for s in body[:at] if isinstance(s, p.Fill) and s.name == score.acc), None)
        need(start is not None and is_zero(start.value), "its scores begin elsewhere than at zero")
        made = next((s for s in body[at:end] if isinstance(s, p.Map) and s.name == total.a.name), None)
        scaled = [s for s in body[at:end] if isinstance(s, p.Map) and s.name == total.acc]
        need(made is not None and len(scaled) == 1, "its sums are not scaled at each step")
        assert isinstance(made, p.Map)
        kept = unpacked(made)
        soften = [x for s in body[:end] if s not in (start, score, *scaled) for x in (kept if s is made else [s])]
        hand_over = body[end + 1 :]
        self._alone([*soften, *scaled, *hand_over])
        late = [s for s in soften if isinstance(s, p.Relayout) and Name(s.name) in scaled[0].args]
        soften = [replace(s, own=True) if isinstance(s, p.Reduce) and s.name in self.own else _flushed(s)
                  for s in soften if s not in late]  # fmt: skip
        rename = {score.acc: scores, made.name: weights, loop.var: self.loops[0].var, f"{made.name}_f32": f"{weights}_f32"}
        pack = f"{weights}_f32" if kept else str(made.args[0].renamed(rename))
        settled: list[ComputedHere] = []
        if self.lags:
            settled = [ComputedHere(Name(s.name)) for s in soften if isinstance(s, p.Reduce) and s.name in self.own][-1:]
            scaled = [_seldom(s) for s in scaled]
        before, there, after, last = (tuple(p.renamed(s, rename) for s in x)
                                      for x in (soften, settled, [*late, *scaled], hand_over))  # fmt: skip
        most, empty = self._extent(number)
        return WalkSteps(self.loops[0].var, loop.begin, loop.end, loop.step, tuple(bounds), before, there, after, pack, last,
                         most, empty)  # fmt: skip

    def _extent(self, number: int) -> tuple[int, bool]:
        """How many steps part ``number`` of the walk can have at most (0: many), and whether it may have none."""
        row, key = self.kernel.axis[self.row], self.kernel.axis[self.key]
        need(isinstance(key.extent, int) and key.extent > 0, "it may have no keys")
        assert isinstance(key.extent, int)
        if len(self.walks) == 1:
            (walk,) = self.walks
            return 0, walk.lo is not None or (walk.hi is not None and not self._sees_a_key(walk.hi))
        spans = [tuple(None if x is None else self._beyond(x) for x in (op.lo, op.hi)) for op in self.walks]
        (low, high), (begin, end) = spans[0], spans[-1]
        need(len(spans) == 2 and begin is None and low is not None and high is not None and low == end and high > low >= 0,
              "its masked tiles do not come first")  # fmt: skip
        assert low is not None and high is not None
        if number:
            return 0, True
        aligned = row.tile % key.tile == low % key.tile == 0
        farthest = (row.steps - 1) * row.tile + low if isinstance(row.steps, int) else key.extent
        return 1 if aligned and high - low <= key.tile else 0, not farthest < key.extent

    def _sees_a_key(self, end: Op) -> bool:
        """Whether a walk from the first key on to ``end`` has a step in any case."""
        try:
            return self._beyond(end) > 0
        except Obstacle:
            return False

    def _beyond(self, op: Op) -> int:
        """How far a bound of the walk lies beyond the block's first row."""
        if isinstance(op, t.Start) and op.axis == self.row:
            return 0
        if isinstance(op, t.Binary) and op.fn == "add":
            sizes = [x.size for x in (op.lhs, op.rhs) if isinstance(x, t.Extent) and isinstance(x.size, int)]
            starts = [x for x in (op.lhs, op.rhs) if isinstance(x, t.Start) and x.axis == self.row]
            if len(sizes) == len(starts) == 1:
                return sizes[0]
        raise Obstacle("its walk ends elsewhere than a fixed way beyond the rows")

    def _sums(self) -> tuple[tuple[str, ...], frozenset[str]]:
        """Variables that carry sums along the rows of weights, and the sums of single steps that go into them.

        ``total * factor + sum of the step`` is linear, so each thread may carry the sum of its own columns, and the threads
        of a row join theirs once, after the walk.
        """
        totals, steps = [], set()
        for loop in self.loops:
            rows = {s.name: s for s in loop.body if isinstance(s, p.Reduce) and s.fn == "sum"}
            mine = []
            for s in loop.body:
                names = _rescaled(s)
                if names is None or names[1] not in rows:
                    continue
                if not {*names} & p.reads(*(x for x in loop.body if x not in (s, rows[names[1]]))):
                    mine.append(names[0])
                    steps.add(names[1])
            totals.append(mine)
        kept = tuple(name for name in totals[0] if all(name in mine for mine in totals))
        return (kept, frozenset(steps)) if all(len(mine) == len(kept) for mine in totals) else ((), frozenset())

    def _alone(self, statements: Sequence[p.Statement]) -> None:
        """Refuses what needs a barrier of the block."""
        for s in statements:
            if isinstance(s, p.Reduce):
                inside = s.gone == "cols" and s.source.side == "tile" and s.source.layout.kind == "accumulator"
                need(inside and s.into == s.made, f"the reduction {s.name} crosses warps")
            elif isinstance(s, p.Relayout):
                rows = s.word == "relayout" and s.place.side == "row" and s.place.layout.kind == "accumulator"
                need(s.word == "copy" or rows, f"{s.name} changes its layout")
            else:
                need(isinstance(s, (*_ALONE, p.StoreTile, p.Dot)), f"a step has a {p.kind(s)}")

    # ---- around the walk

    def _places(self) -> tuple[tuple[p.Scalar, ...], int]:
        """Coordinates from the number of a block of rows, and how many statements of the plain plan they stand for."""
        several = [a for a in self.kernel.grid if a.steps != 1]
        heads = [a for a in several if a.name != self.row]
        wide = next((a.name for a in heads if a.tile > 1), None)
        need(wide is None, f"the axis {wide} is no row of the scores")
        values = unfolded(Word("block.head"), heads)
        values[self.row] = multiply(Word("block.row"), whole(self.kernel.axis[self.row].tile))
        found = tuple(p.Scalar(str(self.origins[a.name]), "i64", values[a.name], note=note_of(a)) for a in several)
        return found, len(several) + (len(several) > 1)

    def _heads(self) -> Size:
        return product(tuple(a.steps for a in self.kernel.grid if a.name != self.row))

    def _blocks(self, rows: Size, heads: Size) -> Size:
        most = max(1, self.target.device.count("units", UNITS))
        blocks = product((rows, heads))
        return min(blocks, most) if isinstance(blocks, int) else most

    def _reaches_farther(self) -> bool:
        """Whether later rows walk farther."""
        return any(isinstance(op, t.For) and op.hi is not None and any(isinstance(x, t.Start) and x.axis == self.row
                   for x in _above(op.hi)) for op in tiles_of(self.kernel.body))  # fmt: skip

    def _group(self, heads: Size) -> int:
        """Heads that are taken at a time: as many as have their keys and values in the cache together."""
        asked = int(self.kernel.schedule.option("heads", 0))
        need(asked >= 0, "heads are taken at least one at a time")
        if asked:
            return asked
        loads = [loaded(operands_of(dot, self.row)[1]) for dot in (self.score, self.sum)]
        elements = [product(tuple(self.kernel.axis[a].extent for a, _ in dims_of(x))) for x in loads]
        if not all(isinstance(n, int) for n in elements):
            return _OPEN_HEADS
        bytes_ = sum(2 * n for n in elements if isinstance(n, int))
        read = {a for x in loads for i in x.indices for a in i.axes}
        sharing = product(tuple(a.steps for a in self.kernel.grid if a.name not in read and a.name != self.row))
        fit = max(1, CACHE_SHARE // max(1, bytes_)) * (sharing if isinstance(sharing, int) else 1)
        most = heads if isinstance(heads, int) and heads > 0 else _MOST_HEADS
        return 1 << (max(1, min(fit, most, _MOST_HEADS)).bit_length() - 1)

    def _after(self, after: Sequence[p.Statement], used: int) -> tuple[p.Statement, ...]:
        """``after`` with the result sent through the copy engine, where it can be and there is room for its panels."""
        asked = str(self.kernel.schedule.option("stores", "auto"))
        stores = [op for op in self.kernel.body.walk() if isinstance(op, t.Store)]
        panels = min(2, (self._room() - used) // self._panel_bytes())
        obstacle = "it is not the only one" if len(stores) != 1 else self._obstacle_to_send(stores[0], after)
        if not obstacle and panels < 1:
            obstacle = "its panels have no room in shared memory"
        if obstacle and asked == "engine":
            raise Obstacle(f"its result cannot be sent by the copy engine: {obstacle}")
        if obstacle or asked == "threads":
            return tuple(after)
        dims = [axis for axis, _ in dims_of(self.sum)]
        name = self.names.fresh(f"{buffer_name(stores[0])}_map")
        spec, batch = described(stores[0], dims, name, (self.panel_rows, PANEL_SIDE))
        at = (*(self.origins.get(a, ZERO) for a in dims), *(coordinate(i, self._at) for i in reversed(batch)))
        return tuple(SendTile(s.value, s.dtype, s.place, s.access, map=spec, at=at, panels=panels, rows=self.panel_rows)
                     if isinstance(s, p.StoreTile) else s for s in after)  # fmt: skip

    def _panel_bytes(self) -> int:
        """Of one panel for each warpgroup."""
        return self.of.threads // WARPGROUP * self.panel_rows * PANEL_SIDE * 2

    def _obstacle_to_send(self, store: t.Store, after: Sequence[p.Statement]) -> str:
        made = next((s for s in after if isinstance(s, p.StoreTile)), None)
        dims = [axis for axis, _ in dims_of(self.sum)]
        if made is None or made.place is None or made.mode != "set" or made.place.side != "tile":
            return "it is no tile"
        if made.place.layout.axes != tuple(dims) or made.place.layout.kind != "accumulator":
            return "it is not the tile that the products make"
        if DTYPES[t.buffer_type(store.buffer).dtype].bytes != 2:
            return "its elements have not 16 bits"
        return obstacle_to_map(store, dims, self.kernel)


def _named_like(part: WalkSteps, model: WalkSteps) -> WalkSteps:
    """``part`` with the names that ``model`` gives to the same values: from the end, as far as both do the same."""
    def statements(s: WalkSteps) -> list[p.Statement]:
        return [*s.soften, *s.rescale, *s.hand_over]

    taken, names = _all_names(statements(part)), {}
    for mine, other in zip(reversed(statements(part)), reversed(statements(model)), strict=False):
        if type(mine) is not type(other):
            break
        old, new = (getattr(x, "name", "") if getattr(x, "define", False) else "" for x in (mine, other))
        if old and new and old != new and new not in taken:
            names[old] = new
            taken.add(new)
    moved = {f: tuple(p.renamed(s, names) for s in getattr(part, f)) for f in ("soften", "settled", "rescale", "hand_over")}
    return replace(part, pack=names.get(part.pack, part.pack), **moved)


def _all_names(block: Sequence[p.Statement]) -> set[str]:
    """What ``block`` reads and makes, inside its statements too."""
    made = {getattr(s, f) for s in block for f in s.NAMES}
    inside = {name for s in block for f in s.INSIDE for _, name, *_ in getattr(s, f)}
    return {*p.reads(*block), *made, *inside}


def _rescaled(s: p.Statement) -> tuple[str, str] | None:
    """The names of the total and of what is added, where ``s`` is ``total = total * factor + added`` on each element."""
    if not isinstance(s, p.Map) or s.define or s.locals:
        return None
    given = {name: str(arg) for (_, name), arg in zip(s.params, s.args, strict=True)}
    match s.result:
        case Apply(fn="add", operands=(Apply(fn="mul", operands=(Name(total), Name())), Name(added))):
            names = given.get(total, total), given.get(added, added)
            return names if names[0] == s.name else None
    return None


def _seldom(s: p.Statement) -> p.Statement:
    """``s``, which scales a tile by a factor of each row, left out where all factors of a warp are 1."""
    if isinstance(s, p.Map) and not s.locals and not s.define:
        given = {name: arg for (_, name), arg in zip(s.params, s.args, strict=True)}
        match s.result:
            case Apply(fn="mul", operands=(Name(x), Name(factor))) if factor in given and str(given.get(x, x)) == s.name:
                return Rescale(s.name, given[factor])
    return s


def operands_of(dot: t.Dot, row: str) -> tuple[Op, Op]:
    """What the left and the right operand are loaded by, or computed as."""
    def source(op: Op) -> Op:
        while isinstance(op, t.Permute | t.Mask):
            op = op.x
        return op

    left, right = (dot.lhs, dot.rhs) if row in t.tile_type(dot.lhs).axes else (dot.rhs, dot.lhs)
    return source(left), source(right)


def _above(op: Op) -> set[Op]:
    """``op`` and all that it is computed from."""
    found = {op}
    for operand in op.operands:
        found |= _above(operand)
    return found


def unpacked(s: p.Map) -> list[p.Statement]:
    """``s`` without the cast to 16 bits that ends it; nothing where it does nothing else."""
    cast = s.result
    if not (isinstance(cast, Apply) and cast.fn == "cast" and s.dtype in ("bf16", "f16")):
        raise Obstacle("its weights are not a cast to 16 bits")
    (inner,) = cast.operands
    if not s.locals and len(s.params) == 1 and inner == Name(s.params[0][1]):
        return []
    return [replace(s, name=f"{s.name}_f32", dtype="f32", result=inner)]


def _flushed(s: p.Statement) -> p.Statement:
    """Weights below the smallest normal number are zero: beside the largest one, which is 1, they do not count."""
    return replace(s, result=s.result.rewritten(_flush)) if isinstance(s, p.Map) else s


def _flush(x: PlanTerm) -> PlanTerm:
    return replace(x, template="pk::exp2_flushed({0})") if isinstance(x, Apply) and x.fn == "exp2" else x
