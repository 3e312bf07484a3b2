"""Whether the waves of a product can take turns, and its plan where they can."""

from __future__ import annotations

from dataclasses import replace

from portakern.backend import Target
from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.emit.clike import KernelPlan, Planner
from portakern.emit.clike import plan as p
from portakern.emit.clike.grid import note_of, unfolded
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.emit.clike.terms import ZERO, Word, multiply, whole
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.size import Size, divides, product

from ..products import product_of
from . import interleave
from .operand import StagedOperand
from .order import quarters_in_order, turns_in_order
from .plan import PingPongPlan, Turn

WAVES = (2, 4)
"""Waves of a block: those that share the columns of a half, and those that share its rows."""


OPTION = "waves"
"""The schedule's option: ``turns`` (two waves of a SIMD alternate), ``plain``, or ``auto``."""


_LINE = {True: 128, False: 64}
"""Bytes of depth in one slot, with copies of 16 bytes to LDS and without: for tiles of 256 x 256 two slots fill 128 of the
160 KB of LDS of CDNA 4, or all 64 KB of the others."""


def slice_of(device: Device, dtype: str = "bf16") -> int:
    """How many elements of ``dtype`` deep one slot is."""
    return _LINE[device.has("lds_dma_16")] // DTYPES[dtype].bytes


def takes_turns(device: Device, dtype: str) -> bool:
    """Whether products of ``dtype`` can be done by waves in turns: of 8 or 16 bits, with a matrix instruction."""
    return DTYPES[dtype].bytes <= 2 and device.has("mfma") and bool(device.matrix_for(dtype))


_USUAL = {WAVES: "256 x 256 by 8 warps", interleave.WAVES: "256 x 128 by 4 warps"}
_VECTOR_BYTES = 16
_ANYWHERE = (p.Scalar, p.Map, p.Fill, p.LoadTile, p.StoreTile, p.Assign)
_REACH = 1 << 31
_BAND = 8


def pingpong(plan: KernelPlan, planner: Planner, target: Target) -> KernelPlan:
    """``plan`` with waves that take turns where that is possible and not forbidden.

    Raises :class:`ScheduleError` where the schedule asks for it and it cannot be had.
    """
    kernel = planner.kernel
    asked = str(kernel.schedule.option(OPTION, "auto"))
    if asked == "plain":
        return plan
    waves = interleave.WAVES if asked == "interleave" else WAVES
    obstacle = _obstacle(plan, kernel, target, waves)
    if not obstacle:
        return _PingPong(plan, planner, target, waves).plan()
    if asked in ("turns", "interleave"):
        raise ScheduleError(f"the waves of {kernel.name} cannot take turns on {target}: {obstacle}",
                            hint=f"take waves=plain, or tiles of {_USUAL[waves]} x {slice_of(target.device, _element(kernel))}")
    return plan


def _element(kernel: t.Kernel) -> str:
    """What a kernel multiplies; 16 bits where it multiplies nothing."""
    return next((t.tile_type(op.lhs).dtype for op in tiles_of(kernel.body) if isinstance(op, t.Dot)), "bf16")


# ---- what stands in the way -----------------------------------------------------------------------------------------------


def _obstacle(plan: KernelPlan, kernel: t.Kernel, target: Target, waves: tuple[int, int]) -> str:
    if waves == interleave.WAVES and not target.device.has("lds_dma_16"):
        return f"{target.device.name} cannot copy 16 bytes a lane to LDS"
    if not target.device.has("mfma"):
        return f"{target.device.name} has no MFMA"
    dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
    loops = [s for s in plan.body if isinstance(s, p.Loop)]
    if len(dots) != 1 or len(loops) != 1 or kernel.schedule.warps != waves[0] * waves[1]:
        return f"it is not one product in one loop by {waves[0] * waves[1]} warps"
    loop, dot = loops[0], dots[0]
    if loop.pipeline is None or len(loop.pipeline.copies) != 2 or loop.begin != ZERO or len(loop.body) != 1:
        return "its loop does more than the product of two operands that are copied ahead (stages=2)"
    odd = next((s for s in plan.body if not isinstance(s, (*_ANYWHERE, p.Loop))), None)
    if odd is not None:
        return f"what follows the product needs LDS, which is full ({p.kind(odd)})"
    element = t.tile_type(dot.lhs).dtype
    if not takes_turns(target.device, element):
        return "its elements have not 8 or 16 bits"
    if t.tile_type(dot.rhs).dtype != element:
        return "its operands have two types"
    tiles = [n for _, n in dims_of(dot)]
    deep = slice_of(target.device, element)
    if any(n not in (128, 256) for n in tiles) or kernel.axis[dot.axis].tile != deep:
        return f"its tiles are not 128 or 256 wide and {deep} deep"
    if tiles[0] * tiles[1] > 128 * 64 * waves[0] * waves[1]:
        return "a wave would hold more of the result than registers hold with ease"
    row, col = (axis for axis, _ in dims_of(dot))
    if any(a.tile > 1 and a.name not in (row, col) for a in kernel.grid):
        return "it has tiles along a third axis"
    loads = [_load(dot.lhs), _load(dot.rhs)]
    return next(filter(None, (_obstacle_to_load(x, dot, kernel, target) for x in loads)), "")


def _load(op: object) -> t.Load | None:
    """The load behind an operand, looking through what copies do anyway."""
    while isinstance(op, t.Permute | t.Mask):
        op = op.x
    return op if isinstance(op, t.Load) else None


def _obstacle_to_load(load: t.Load | None, dot: t.Dot, kernel: t.Kernel, target: Target) -> str:
    if load is None:
        return "an operand is computed"
    have, name = t.buffer_type(load.buffer), str(getattr(load.buffer, "name", "an operand"))
    (row, _), (col, cols) = dims_of(load)
    by_axis = {i.plain: (n, s) for i, n, s in zip(load.indices, have.shape, have.element_strides, strict=True)}
    if None in by_axis or row not in by_axis or col not in by_axis:
        return f"{name} is not read by plain coordinates"
    (rows_have, stride), (cols_have, one) = by_axis[row], by_axis[col]
    size = DTYPES[have.dtype].bytes
    vector = _VECTOR_BYTES // size
    if one != 1 or not isinstance(stride, int) or not isinstance(cols_have, int) or cols_have % vector or have.align % 16:
        return f"the rows of {name} are not contiguous and whole vectors of {vector}"
    if not all(divides(vector, s) for i, s in zip(load.indices, have.element_strides, strict=True) if i.plain != col):
        return f"the rows of {name} do not begin at multiples of 16 bytes"
    straight = col == dot.axis
    if not isinstance(kernel.axis[dot.axis].extent, int):
        return "its depth is open"
    lines = kernel.axis[row].tile if straight else rows_have
    if not isinstance(lines, int) or lines * stride * size >= _REACH - 256 * stride * size:
        return f"{name} is longer than the offsets of a buffer reach"
    if not straight and not target.device.has("ds_read_tr") and (cols != 256 or size != 2):
        return f"{name} is transposed by patches of 16 bits, of which 256 columns are needed"
    return ""


# ---- the plan -----------------------------------------------------------------------------------------------------------


class _PingPong:
    """Builds the plan from the plain one: layouts, epilogue and addresses stay as they are."""

    def __init__(self, plan: KernelPlan, planner: Planner, target: Target, waves: tuple[int, int]) -> None:
        self.planner, self.kernel, self.target, self.waves = planner, planner.kernel, target, waves
        layout = next(s for s in p.statements(plan.body) if isinstance(s, p.Dot)).place.layout
        self.of: KernelPlan = p.relaid(plan, {layout: replace(layout, kind="quarters")})
        self.dot = next(op for op in tiles_of(self.kernel.body) if isinstance(op, t.Dot))
        self.row, self.col = (axis for axis, _ in dims_of(self.dot))
        self.loop = next(s for s in self.of.body if isinstance(s, p.Loop))
        self.direct = target.device.has("lds_dma_16")

    def plan(self) -> PingPongPlan:
        at = self.of.body.index(self.loop)
        places, first = self._places()
        a, b = self._operands()
        after = self.of.body[at + 1 :]
        dot = next(s for s in self.loop.body if isinstance(s, p.Dot))
        tiles = (self.kernel.axis[self.row].steps, self.kernel.axis[self.col].steps, self._batches())
        assert self.loop.pipeline is not None
        gone = {self.loop.pipeline.slot, self.loop.pipeline.stage}  # of the plain loop
        fields = {**vars(self.of), "names": self.of.names - gone}
        depth = self.kernel.axis[self.dot.axis].extent
        assert isinstance(depth, int)
        turns = turns_in_order(self._turns(a, b)) if self.waves == WAVES else ()
        quarters = () if turns else quarters_in_order(interleave.quarters(a, b))
        return PingPongPlan(
            **fields, tiles=tiles, band=int(self.kernel.schedule.option("band", _BAND)),
            dies=product_of(self.target.device).count("dies", 1), depth=depth, direct=self.direct, operands=(a, b),
            places=places, before=self.of.body[first:at], acc=dot.acc, after=after, turns=turns, quarters=quarters,
        )  # fmt: skip

    def _batches(self) -> Size:
        return product(tuple(a.steps for a in self.kernel.grid if a.name not in (self.row, self.col)))

    def _places(self) -> tuple[tuple[p.Scalar, ...], int]:
        """Coordinates from a tile's place, and how many statements of the plain plan they stand for."""
        several = [a for a in reversed(self.kernel.grid) if a.steps != 1]
        skipped = len(several) + (len(several) > 1)
        scalars = self.of.body[1 if len(several) > 1 else 0 :]
        names = {a.name: s.name for a, s in zip(several, scalars, strict=False) if isinstance(s, p.Scalar)}
        batch = [a for a in self.kernel.grid if a.name not in (self.row, self.col) and a.steps != 1]
        values = unfolded(Word("tile.batch"), batch)
        for axis, word in ((self.row, "tile.row"), (self.col, "tile.col")):
            values[axis] = multiply(Word(word), whole(self.kernel.axis[axis].tile))
        made = [p.Scalar(names[a.name], "i64", values[a.name], note=note_of(a)) for a in self.kernel.grid if a.steps != 1]
        return tuple(made), skipped

    def _operands(self) -> tuple[StagedOperand, StagedOperand]:
        made: dict[str, StagedOperand] = {}
        assert self.loop.pipeline is not None
        element = t.tile_type(self.dot.lhs).dtype
        depth = slice_of(self.target.device, element)
        for stage in self.loop.pipeline.copies:
            side = "rows" if stage.shared.role == "A" else "cols"
            op = self.dot.lhs if (self.row in t.tile_type(self.dot.lhs).axes) == (side == "rows") else self.dot.rhs
            load = _load(op)
            assert load is not None
            access = self.planner.addresses.access(load, self.planner.variable[load.buffer], dims_of(load))
            straight = dims_of(load)[1][0] == self.dot.axis
            free = stage.shared.rows if straight else stage.shared.cols
            left = access.left[0 if straight else 1] if access.left else whole(free)
            rows, cols = (free, depth) if straight else (depth, free)
            stem, fresh = stage.shared.name.removesuffix("_shared"), self.planner.names.fresh
            made[side] = StagedOperand(
                stage.shared.name, side, stage.shared.dtype, rows, cols, straight, access.origin, access.strides[0], left,
                self.waves[side == "cols"],
                free // 2 * depth * DTYPES[element].bytes // (self.waves[0] * self.waves[1] * 64 * _VECTOR_BYTES),
                fresh(f"{stem}_feed"), fresh(f"{stem}_reader"),
            )  # fmt: skip
        return made["rows"], made["cols"]

    def _turns(self, a: StagedOperand, b: StagedOperand) -> tuple[Turn, ...]:
        """Upper rows times left columns, times right columns, then lower rows the other way round.

        Through registers whole slices are put at once into the slot that the last slice has left, the right one before the left
        one, which is read later.
        """
        sends = ((a, 1, 1), (b, 0, 2), (a, 0, 2), (b, 1, 2)) if self.direct else (None, (b, 0, 1), (a, 0, 1), None)
        looks = a.dtype == "f16" and self.target.device.has("f16_matrix_flushes")
        return (
            Turn(a, 0, 0, "rows", sends[0], (0, 0), "left", looks, self.direct),
            Turn(b, 1, 0, "right", sends[1], (0, 1), "right", looks, self.direct),
            Turn(a, 1, 0, "rows", sends[2], (1, 0), "left", looks, self.direct),
            Turn(b, 0, 1, "left", sends[3], (1, 1), "right", looks, self.direct),
        )

