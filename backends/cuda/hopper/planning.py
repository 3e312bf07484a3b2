"""Whether a kernel's product can be a pipeline between warps, and its plan where it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from portakern.backend import Pixels, Target, TensorMap
from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import nest_of
from portakern.emit.clike.grid import note_of, unfolded
from portakern.emit.clike.layouts import Layout, dims_of, tiles_of
from portakern.emit.clike.memory import pixels
from portakern.emit.clike.terms import (
    ONE,
    ZERO,
    Name,
    PlanTerm,
    Word,
    add,
    divide,
    multiply,
    remainder,
    size_term,
    whole,
)  # fmt: skip
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.size import Size, ceildiv, divides, product

from ..plans import CudaKernelPlan, by_warpgroups
from .images import PixelsWritten, obstacle_to_pixels, walked_pixels, written_pixels
from .plan import PANEL_SIDE, WARPGROUP, Fetched, PipelinePlan, SendTile, WriteRows

MOVERS = ("auto", "threads", "engine")
"""Who moves tiles between memory and shared memory: the threads that multiply, or the copy engine."""

ANYWHERE = (p.Scalar, p.Map, p.Fill, p.LoadTile, p.StoreTile, p.Assign)
"""Statements that need no barrier of the block, so that some of its warps may do them alone."""

UNITS, TENSOR_UNITS = 132, 148
"""SMs where the device does not say (H100 SXM and H200; B200); with fewer, some blocks run after the others."""


def units_of(device: Device) -> int:
    """SMs of ``device``, or where it is an instruction set those of its usual product."""
    return device.count("units", TENSOR_UNITS if device.has("tcgen05") else UNITS)


MOST_DIMS = 5
FIRST = t.Index()
"""The coordinate 0, of a dim with one element."""
_BAND = 16
MISALIGNED = "do not begin at multiples of 16 bytes"
PANEL = 128
"""Bytes of a row of a panel: those within which the copy engine exchanges places."""
_PANELS = 2
_LINE = 128
_FEW = 8
"""From this many tiles along an axis on, one that a cluster computes in vain costs little."""


def pipelined(plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> CudaKernelPlan:
    """``plan`` as a pipeline between warps where that is possible and not forbidden.

    Raises :class:`ScheduleError` where the schedule asks for it and it cannot be had.
    """
    asked = str(kernel.schedule.option("copies", "auto"))
    if asked == "threads" or not by_warpgroups(plan):
        if asked == "engine":
            raise ScheduleError(f"{kernel.name} cannot use the copy engine on {target}: its products are not wgmma's",
                                hint="take copies=threads, or other tiles")
        return plan
    obstacle = obstacle_to_pipeline(plan, kernel, target)
    if not obstacle:
        return PipelinePlanner(plan, kernel, target).plan()
    if asked == "engine":
        raise ScheduleError(f"{kernel.name} cannot use the copy engine on {target}: {obstacle}",
                            hint="take copies=threads, or other tiles")
    return plan


# ---- what stands in the way -----------------------------------------------------------------------------------------------


def obstacle_to_pipeline(k: KernelPlan, kernel: t.Kernel, target: Target) -> str:
    """Why ``k`` cannot be a pipeline between warps; empty where it can."""
    if not target.device.has("tma"):
        return f"{target.device.name} has no copy engine for tiles"
    dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
    loops = [s for s in k.body if isinstance(s, p.Loop)]
    if len(dots) not in (1, 2) or len(loops) != 1 or k.body.count(loops[0]) != 1:
        return "it is not one product, or a pair of them, in one loop"
    loop, dot = nest_of(loops[0])[-1], dots[0]
    if loop.pipeline is None or len(loop.pipeline.copies) != len(dots) + 1 or loop.pipeline.slots < 2:
        return "its operands are not all copied ahead of their use"
    if len(loop.body) != len(dots) or not all(isinstance(s, p.Dot) for s in loop.body):
        return "its loop does more than the product"
    odd = next((s for s in k.body if not isinstance(s, (*ANYWHERE, p.Loop))), None)
    if odd is not None:
        return f"what follows the product needs a barrier of the block ({p.kind(odd)})"
    if k.warps not in (4, 8):
        return "its consumers are one or two warpgroups"
    row, col = (axis for axis, _ in dims_of(dot))
    wide = next((a.name for a in kernel.grid if a.tile > 1 and a.name not in (row, col)), None)
    if wide is not None:
        return f"the axis {wide} is neither a row nor a column of the product"
    return next(filter(None, (_obstacle_to_feed(load, kernel) for x in dots for load in _loads(x))), "")


def loads_of(dot: t.Dot) -> tuple[t.Load, t.Load] | None:
    """The loads of the left and of the right operand, looking through what copies do anyway; ``None`` where one is computed."""
    def load(op: object) -> object:
        while isinstance(op, t.Permute | t.Mask):
            op = op.x
        return op

    row = dims_of(dot)[0][0]
    left, right = map(load, (dot.lhs, dot.rhs) if row in t.tile_type(dot.lhs).axes else (dot.rhs, dot.lhs))
    return (left, right) if isinstance(left, t.Load) and isinstance(right, t.Load) else None


def _loads(dot: t.Dot) -> tuple[t.Load, t.Load]:
    found = loads_of(dot)
    assert found is not None
    return found


def _obstacle_to_feed(load: t.Load, kernel: t.Kernel) -> str:
    if pixels(kernel, load):
        if DTYPES[t.tile_type(load).dtype].bytes != 2:
            return "pixels are brought in channels of 16 bits"
        return obstacle_to_pixels(load, kernel)
    return obstacle_to_map(load, [axis for axis, _ in dims_of(load)], kernel)


def buffer_name(op: t.Load | t.Store) -> str:
    return str(getattr(op.buffer, "name", "array"))


def _of_block(index: t.Index, kernel: t.Kernel) -> bool:
    """Whether ``index`` is one coordinate for all of a tile."""
    return index.gather < 0 and all(kernel.axis[a].tile == 1 for a in index.axes)


def obstacle_to_map(op: t.Load | t.Store, dims: list[str], kernel: t.Kernel) -> str:
    """Why the copy engine cannot move boxes over ``dims`` (row axis, column axis) of the array of ``op``."""
    have, name = t.buffer_type(op.buffer), buffer_name(op)
    granule = 16 // DTYPES[have.dtype].bytes
    if have.align % 16:
        return f"{name} is not aligned to 16 bytes"
    read = t.joined_dims(op)
    if len(read) > MOST_DIMS:
        return f"{name} has more than {MOST_DIMS} dims"
    plain = {dim.index.plain for dim in read}
    if any(dim.index.plain is None and not _of_block(dim.index, kernel) for dim in read) or set(dims) - plain:
        return f"{name} is not read by plain coordinates"
    if any(dim.size == 0 or (isinstance(dim.size, int) and dim.size >= 2**31) for dim in read):
        return f"{name} is empty or longer than coordinates reach"
    for index, stride in ((dim.index, dim.stride) for dim in read):
        if index.plain == dims[1] and stride != 1:
            return f"{name} is not contiguous along {dims[1]}"
        if index.plain != dims[1] and not divides(granule, stride):
            return f"rows of {name} {MISALIGNED}"
        if index.plain not in (*dims, None) and kernel.axis[str(index.plain)].tile != 1:
            return f"{name} has a third dim"
    return ""


# ---- what the copy engine is told --------------------------------------------------------------------------------------


def origins_of(plan: KernelPlan, kernel: t.Kernel) -> dict[str, PlanTerm]:
    """The first coordinate along each grid axis; zero for one with a single tile.

    The planner puts them first: the block's index where there are several, then the axes from the last to the first.
    """
    axes = [a for a in reversed(kernel.grid) if a.steps != 1]
    scalars = plan.body[1 if len(axes) > 1 else 0 :]
    names: dict[str, PlanTerm] = {a.name: ZERO for a in kernel.grid}
    for axis, scalar in zip(axes, scalars, strict=False):
        assert isinstance(scalar, p.Scalar)
        names[axis.name] = Name(scalar.name)
    return names


def coordinate(index: t.Index, at: Callable[[str], PlanTerm]) -> PlanTerm:
    """``index`` where the coordinate along each axis is what ``at`` says."""
    total: PlanTerm = ZERO
    for x in index.terms:
        where = at(x.axis)
        if where != ZERO:
            where = where if x.div == 1 else divide(where, whole(x.div))
            where = where if not x.mod else remainder(where, whole(x.mod))
            total = add(total, multiply(where, size_term(x.scale)))
    return add(total, size_term(index.offset))


def described(op: t.Load | t.Store, dims: Sequence[str], name: str, box: tuple[int, int],
              swizzle: int = 128) -> tuple[TensorMap, list[t.Index]]:  # fmt: skip
    """The array of ``op`` with its batches first, in boxes over ``dims``; and the coordinates of the batches.  Dims of which
    only the first coordinate is read are left out."""
    known = [(dim.index, dim.size, dim.stride) for dim in t.joined_dims(op)]
    batch = [x for x in known if x[0].plain not in dims and x[0] != FIRST]
    order = [*batch, *(next(x for x in known if x[0].plain == axis) for axis in dims)]
    sizes, strides = tuple(n for _, n, _ in order), tuple(s for _, _, s in order)
    return TensorMap(name, buffer_name(op), sizes, strides, (*(1,) * len(batch), *box), swizzle), [x[0] for x in batch]


# ---- the plan -----------------------------------------------------------------------------------------------------------


class PipelinePlanner:
    """Builds the pipeline's plan from the plain one: its layouts, epilogue and addresses stay as they are."""

    kind: type[PipelinePlan] = PipelinePlan

    def __init__(self, plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> None:
        self.of, self.kernel, self.target = plan, kernel, target
        self.dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
        self.row, self.col = (axis for axis, _ in dims_of(self.dots[0]))
        self.nest = next(s for s in plan.body if isinstance(s, p.Loop))
        *self.around, self.loop = nest_of(self.nest)
        self.origins = origins_of(plan, kernel)
        self.names = plan.free_names()
        self.cluster = self._cluster()

    def plan(self) -> PipelinePlan:
        at = self.of.body.index(self.nest)
        places, first = self._places()
        feeds = self._feeds()
        after = self._after(self.of.body[at + 1 :], sum(f.bytes for f in feeds))
        sent = [s.map for s in after if isinstance(s, SendTile) and s.map is not None]
        maps = [*(f.map for f in feeds), *sent]
        dtypes = {q.source: q.dtype for q in self.of.params}
        before = p.used(self.of.body[first:at], after, replace(self.nest, pipeline=None))
        kept = p.reads(*before, *(s for s in after if not isinstance(s, SendTile)))
        params = [p.KernelParam(m.name, dtypes[m.array], "map", source=m.name) for m in maps]
        params += [q for q in self.of.params if q.role != "array" or q.source not in {m.array for m in maps} or q.name in kept]
        tiles = (self._steps(self.row), self._steps(self.col), self._batches())
        assert self.loop.pipeline is not None
        fields = {**vars(self.of), "params": tuple(params), "blocks": self._blocks(tiles)}
        return self.kind(
            **fields, cluster=self.cluster, band=int(self.kernel.schedule.option("band", _BAND)), rows=tiles[0], cols=tiles[1],
            batches=tiles[2], slots=self.loop.pipeline.slots, feeds=feeds, places=places,
            loop=replace(self.loop, pipeline=None), around=tuple(self.around), limits=_limits(before, self.loop),
            before=before, after=after,
        )  # fmt: skip

    @property
    def panel_rows(self) -> int:
        """Of a panel through which a warpgroup sends its results."""
        return PANEL_SIDE

    def columns_of_a_warp(self, layout: Layout) -> int:
        """Warps lie below each other as far as the rows of a tile reach, then side by side."""
        return layout.cols // (self.of.warps // min(self.of.warps, layout.rows // 16))

    def _places(self) -> tuple[tuple[p.Scalar, ...], int]:
        """Coordinates from a tile's number, and how many statements of the plain plan they stand for."""
        batch = [a for a in self.kernel.grid if a.name not in (self.row, self.col) and a.steps != 1]
        values = unfolded(Word("tile.batch"), batch)
        for axis, word in ((self.row, "tile.row"), (self.col, "tile.col")):
            values[axis] = multiply(Word(word), whole(self.kernel.axis[axis].tile))
        several = [a for a in self.kernel.grid if a.steps != 1]
        found = [p.Scalar(str(self.origins[a.name]), "i64", values[a.name], note=note_of(a)) for a in several]
        return tuple(found), len(several) + (len(several) > 1)

    def _steps(self, axis: str) -> Size:
        return self.kernel.axis[axis].steps

    def _batches(self) -> Size:
        return product(tuple(a.steps for a in self.kernel.grid if a.name not in (self.row, self.col)))

    def _cluster(self) -> tuple[int, int]:
        asked = str(self.kernel.schedule.option("cluster", "auto"))
        if asked != "auto":
            down, _, across = asked.partition("x")
            made = (int(down), int(across)) if down.isdigit() and across.isdigit() else (0, 0)
            fits = all(n in (1, 2, 4) and (n == 1 or self._shareable(axis, n, least=0))
                       for n, axis in zip(made, (self.row, self.col), strict=True))  # fmt: skip
            if not fits or made[0] * made[1] > 8 or (made != (1, 1) and self._of_pixels()):
                raise ScheduleError(f"{self.kernel.name} cannot run in clusters of {asked}",
                                    hint="1x1, 2x1, 1x2, 2x2, ... blocks below each other x side by side, dividing its tiles")
            return made
        if self._of_pixels():
            return (1, 1)
        if all(self._whole_lines(load) for load in self._loads()):
            return (1, 1)
        if self._shareable(self.row, 2):
            return (2, 1)
        return (1, 2) if self._shareable(self.col, 2) else (1, 1)

    def _of_pixels(self) -> bool:
        """Whether an operand is made of pixels, which are not brought in parts."""
        return any(pixels(self.kernel, load) for load in self._loads())

    def _loads(self) -> list[t.Load]:
        return [load for dot in self.dots for load in _loads(dot)]

    def _whole_lines(self, load: t.Load) -> bool:
        """Whether the rows of a box are whole lines of the cache: else the engine fetches more, and sharing pays (on an H200
        with bf16, 4000 x 4104 x 4072 took 224 us in pairs, 283 us alone; 8192 x 304 x 4096 40.8 and 48.6; 4096^3 177.5 and
        177.1)."""
        dims, have = [axis for axis, _ in dims_of(load)], t.buffer_type(load.buffer)
        strides = [dim.stride for dim in t.joined_dims(load) if dim.index.plain != dims[1]]
        return all(divides(_LINE // DTYPES[have.dtype].bytes, s) for s in strides)

    def _shareable(self, axis: str, n: int, least: int = _FEW) -> bool:
        """Whether ``n`` neighbouring blocks along ``axis`` all have a tile, or may compute one in vain, with checked stores."""
        steps, ragged = self._steps(axis), self.kernel.axis[axis].ragged
        if isinstance(steps, int):
            return steps % n == 0 or (ragged and steps >= max(n, least))
        return ragged

    def _blocks(self, tiles: tuple[Size, Size, Size]) -> Size:
        """As many blocks as run at once, in whole clusters; fewer where there are fewer tiles."""
        down, across = self.cluster
        clusters = product((ceildiv(tiles[0], down), ceildiv(tiles[1], across), tiles[2]))
        most = max(1, units_of(self.target.device) // (down * across))
        return (min(clusters, most) if isinstance(clusters, int) else most) * down * across

    def _feeds(self) -> tuple[Fetched, ...]:
        down, across = self.cluster
        made: list[Fetched] = []
        assert self.loop.pipeline is not None
        for load, operand, side, parts in self._operands(across, down):
            dims = [axis for axis, _ in dims_of(load)]
            shared = operand.shared
            assert isinstance(shared, p.Shared)
            if any(f.shared == shared for f in made):
                continue  # what a pair of products has in common
            panel = PANEL // DTYPES[shared.dtype].bytes
            rows = shared.rows if shared.cols // panel % parts == 0 else shared.rows // parts
            spec, at = self._pixels(load, rows) if pixels(self.kernel, load) else self._described(load, dims, (rows, panel))
            made.append(Fetched(shared, spec, side, at))
        return tuple(made)

    def _operands(self, across: int, down: int) -> Iterator[tuple[t.Load, p.Operand, str, int]]:
        """The operands of each product by their loads, with their sides and in how many parts a cluster brings them."""
        for dot, planned in zip(self.dots, self.loop.body, strict=True):
            assert isinstance(planned, p.Dot)
            left, right = _loads(dot)
            yield left, planned.a, "left", across
            yield right, planned.b, "right", down

    def _pixels(self, load: t.Load, rows: int) -> tuple[TensorMap, tuple[PlanTerm, ...]]:
        """The array of ``load``, whose rows are pixels, and where they begin, the innermost dim first; then the taps."""
        walk, taps = walked_pixels(load, self.kernel)
        have = t.buffer_type(load.buffer)
        box = (*(1,) * (len(have.shape) - 2), rows, 64)
        spec = TensorMap(self.names.fresh(f"{buffer_name(load)}_map"), buffer_name(load), have.shape, have.element_strides, box,
                         pixels=walk)  # fmt: skip
        begin = [self._coordinate(t.Index(tuple(x for x in i.terms if x not in taken), i.offset))
                 for i, taken in zip(load.indices, ((), *((x,) if x else () for x in taps), ()), strict=True)]  # fmt: skip
        inside = [self._coordinate(t.Index((x,) if x else ())) for x in taps]
        return spec, (*reversed(begin), *reversed(inside))

    def _coordinate(self, index: t.Index) -> PlanTerm:
        return coordinate(index, self._at)

    def _described(self, op: t.Load | t.Store, dims: list[str], box: tuple[int, int]) -> tuple[TensorMap, tuple[PlanTerm, ...]]:
        """The array of ``op`` in boxes of so many rows and columns, and where its tile begins, rows first."""
        spec, batch = described(op, dims, self.names.fresh(f"{buffer_name(op)}_map"), box)
        return spec, (*map(self._at, dims), *(self._coordinate(i) for i in reversed(batch)))

    def _after(self, after: tuple[p.Statement, ...], slot_bytes: int) -> tuple[p.Statement, ...]:
        """``after`` with the result sent through the copy engine, where it can be and there is room for its panels; else, where
        its rows begin off 16 bytes, written row by row."""
        asked = str(self.kernel.schedule.option("stores", "auto"))
        assert self.loop.pipeline is not None
        used = self.loop.pipeline.slots * slot_bytes + 1024
        left = self.target.device.count("shared_bytes_per_block") - used
        room = left // (self.of.threads // WARPGROUP * self.panel_rows * PANEL_SIDE * 2)
        stores = [op for op in self.kernel.body.walk() if isinstance(op, t.Store)]
        obstacle = "it is not the only one" if len(stores) != 1 else self._obstacle_to_send(stores[0], after)
        if not obstacle and room < 1:
            obstacle = "its panels have no room in shared memory"
        if asked == "threads" or obstacle:
            if asked == "engine":
                raise ScheduleError(f"{self.kernel.name} cannot send its result by the copy engine: {obstacle}",
                                    hint="take stores=threads")
            return self._by_rows(after, left) if MISALIGNED in obstacle and asked == "auto" else after
        to = written_pixels(stores[0], self.row)
        spec, at = (self._described(stores[0], [self.row, self.col], (self.panel_rows, PANEL_SIDE)) if isinstance(to, str)
                    else self._written(stores[0], to))  # fmt: skip
        panels = min(_PANELS, room)
        return tuple(SendTile(s.value, s.dtype, s.place, s.access, map=spec, at=at, panels=panels, rows=self.panel_rows)
                     if isinstance(s, p.StoreTile) else s for s in after)  # fmt: skip

    def _written(self, store: t.Store, to: PixelsWritten) -> tuple[TensorMap, tuple[PlanTerm, ...]]:
        """The images that ``store`` writes the pixels of, and where its tile begins; then how many pixels there are, the
        innermost spatial dim first."""
        none = (0,) * len(to.positions)
        spec = TensorMap(self.names.fresh(f"{buffer_name(store)}_map"), buffer_name(store), to.shape, to.strides,
                         (*(1,) * len(none), self.panel_rows, PANEL_SIDE), pixels=Pixels(none, none, (1,) * len(none)),
                         offset=to.offset)  # fmt: skip
        return spec, (self._at(self.row), self._at(self.col), *map(whole, reversed(to.positions)))

    def _by_rows(self, after: tuple[p.Statement, ...], room: int) -> tuple[p.Statement, ...]:
        def written(s: p.Statement) -> p.Statement:
            if not isinstance(s, p.StoreTile) or s.place is None or s.access.strides[-1] != ONE:
                return s
            bytes_ = self.of.warps * 8 * (self.columns_of_a_warp(s.place.layout) + 8) * 2
            return WriteRows(s.value, s.dtype, s.place, s.access, bytes=bytes_) if bytes_ <= room else s

        return tuple(map(written, after))

    def _obstacle_to_send(self, store: t.Store, after: tuple[p.Statement, ...]) -> str:
        made = [s for s in after if isinstance(s, p.StoreTile)]
        place = made[0].place if made else None
        if place is None or place.side != "tile" or place.layout.kind != "accumulator" or made[0].mode != "set":
            return "it is not the tile that the product makes"
        if DTYPES[t.buffer_type(store.buffer).dtype].bytes != 2:
            return "its elements have not 16 bits"
        if place.layout.axes != (self.row, self.col) or self.columns_of_a_warp(place.layout) % PANEL_SIDE:
            return "its warpgroups do not hold whole panels of 64 x 64"
        obstacle = obstacle_to_map(store, [self.row, self.col], self.kernel)
        return "" if obstacle and isinstance(written_pixels(store, self.row), PixelsWritten) else obstacle

    def _at(self, axis: str) -> PlanTerm:
        walked = [a.name for a in self.kernel.axes if a.kind == "loop"]
        if axis in walked:
            return Name((*self.around, self.loop)[walked.index(axis)].var)
        return self.origins[axis]


def _limits(block: tuple[p.Statement, ...], loop: p.Loop) -> tuple[p.Scalar, ...]:
    """The scalars of ``block`` that say where ``loop`` begins and ends."""
    wanted, found = set(p.reads(loop.begin, loop.end)), []
    for s in reversed(block):
        if isinstance(s, p.Scalar) and s.name in wanted:
            wanted |= p.reads(s)
            found.append(s)
    return tuple(reversed(found))
