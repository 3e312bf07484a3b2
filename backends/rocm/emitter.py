"""HIP C++ for AMD GPUs, in the tile vocabulary (docs/tile-vocabulary.md) over the headers in ``include/pk``.

What differs from the rest of the C family:

- the accumulator of a matrix product is spread over waves so that a wave's part is as square as it can be, save in
  attention, where a wave keeps whole rows: their statistics need no other wave, and the probabilities are at once the
  left operand of the second product;
- a left operand that no loop changes (the queries) is loaded into registers as fragments and never sees LDS;
- ``stages=2`` means two LDS buffers with registers between memory and LDS: CDNA 3 and RDNA cannot copy 16 bytes a lane to
  LDS by themselves.  Reads of the next step are under way while this one is multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from portakern.backend import Missing, Target
from portakern.device import Device
from portakern.dtypes import DTYPES
from portakern.emit.clike import CLikeEmitter, Dialect, KernelPlan, Planner, Printer, Shared
from portakern.emit.clike import plan as p
from portakern.emit.clike.flat import flattened
from portakern.emit.clike.layouts import Layout, Place, dims_of, tiles_of
from portakern.emit.clike.printer import indented
from portakern.emit.clike.terms import number
from portakern.emit.partials import reduced_once
from portakern.emit.softmax import by_powers_of_two, of_narrow_products
from portakern.emit.sums import with_fused_sums
from portakern.emit.where import where
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.program import Program

from .attention import (
    AttentionPlan,
    LoadQueries,
    MapByFours,
    StripWalk,
    attention_in_turns,
    loaded_ahead,
    print_attention,
    print_walk,
    strip_type,
    strips_of,
    with_capped_scores,
    with_strips,
)  # fmt: skip
from .pingpong import PingPongPlan, pingpong, print_pingpong

HEADERS = Path(__file__).parent / "include" / "pk"
MAX_STAGES = 2
SLAB_BYTES = 8192
"""``slab_bytes`` of relayout.h: of LDS, for tiles that go into another layout."""
WAVE_OF_CDNA = 64
"""Lanes of a wave on CDNA, which multiplies every dtype by matrix instructions."""
LEFT_IN_REGISTERS = 128
"""The deepest left operand that is kept in registers: at 128 a lane of CDNA holds 16 registers of it per 16 rows."""

OPTIONS = {
    "waves": "of a product or attention (CDNA): turns (8, two of a SIMD alternate), interleave (a product by 4, CDNA 4), "
    "plain, auto, or first: turns, else another schedule",
    "split": "attention, products of products: 1: tiles that every row of a block sees whole are walked apart, without masks",
    "band": "how many tiles high the bands are in which such a product's tiles are taken",
}

def keeps_rows(family: str, subgroup: int) -> bool:
    """Whether a wave keeps whole rows of what is between two products, where it can: RDNA has no registers for a chain's left
    operands."""
    return family == "attention" or (family == "chain" and subgroup == WAVE_OF_CDNA)


_ONE_STEP = "#pragma unroll 1  // steps overlap already; unrolled ones would hold more registers than there are"
_SOME_STEPS = "#pragma unroll {}  // all steps at once would hold more registers than there are"
_16_BIT = ("f16", "bf16")
_SUMS = {
    "f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "i8": "i32",
    "f8e4m3": "f32", "f8e5m2": "f32", "f8e4m3fnuz": "f32", "f8e5m2fnuz": "f32",
}  # fmt: skip
"""Operands of matrix products -> what they are summed in."""

_BY_LANES = ("f32", "f64")
"""Operands that lanes multiply where no matrix instruction does."""


def subgroup(device: Device) -> int:
    """Lanes of a wave: 64 on CDNA, 32 on RDNA."""
    return device.count("subgroup")


def on_matrix_cores(device: Device, dtype: str) -> bool:
    """Whether products of ``dtype`` have a matrix instruction here (RDNA has none for f32 and f64)."""
    return bool(device.matrix_for(dtype))


def multiplies(device: Device, dtype: str, summed: str) -> bool:
    """Whether there are products of matrices of ``dtype`` here, summed in ``summed``."""
    return _SUMS.get(dtype) == summed and (dtype in _BY_LANES or on_matrix_cores(device, dtype))


def waves_across(rows: int, cols: int, warps: int) -> int:
    """How many of ``warps`` waves stand side by side along the columns: the split with the squarest part per wave."""
    choices = [n for n in (1, 2, 4, 8, 16) if warps % n == 0 and cols % (16 * n) == 0 and rows % (16 * (warps // n)) == 0]
    return min(choices, key=lambda n: (rows * n / warps + cols / n, n), default=1)


def shared_evenly(rows: int, cols: int, warps: int, family: str, cores: bool, lanes: int) -> bool:
    """Whether ``warps`` waves have equal parts of a product's rows x cols elements: in attention they stand below each other as
    far as there are 16 rows for each.  Without matrix ``cores`` a wave has 8 rows or more."""
    across = max(1, warps // math.gcd(rows // 16, warps)) if keeps_rows(family, lanes) else waves_across(rows, cols, warps)
    return rows % ((16 if cores else 8) * (warps // across)) == 0 and cols % (16 * across) == 0


class HipPlanner(Planner):
    """Keeps left operands that no loop changes in registers."""

    def __init__(self, kernel: t.Kernel, dialect: Dialect) -> None:
        super().__init__(kernel, dialect)
        if ("A", "left") in dialect.register_operands:
            for load in [x for x in self.staged if x in self.kernel.body.ops and self._is_left(x)]:
                self._keep_in_registers(load)

    def _same(self, a: Place, b: Place) -> bool:
        """The rows of two accumulators of one height are spread alike (attention keeps the waves in one column), if matrix
        instructions fill both or neither: RDNA has none for f32 and f64, and spreads those as pk::AccumulatorShape says."""
        alike = a.side == b.side == "row" and {a.layout.kind, b.layout.kind} == {"accumulator"} and a.size == b.size
        cores = self.dialect.subgroup == WAVE_OF_CDNA or (a.layout.element in _BY_LANES) == (b.layout.element in _BY_LANES)
        return super()._same(a, b) or (alike and cores and keeps_rows(self.kernel.family, self.dialect.subgroup))

    def _is_left(self, load: t.Load) -> bool:
        dims = dims_of(load)
        if dims[1][1] > LEFT_IN_REGISTERS or dims[0][1] % (16 * self.warps):
            return False
        return all(
            isinstance(u, t.Dot) and u.lhs is load and u.axis == dims[1][0] and dims_of(u)[0] == dims[0]
            for u in self.regions.uses[load]
        )

    def _keep_in_registers(self, load: t.Load) -> None:
        (row, rows), (col, cols) = dims_of(load)
        name = self.names.fresh("Left", f"Left{row.upper()}{col.upper()}")
        layout = Layout(name, "left", rows, cols, (row, col), t.tile_type(load).dtype)
        self.layouts.layouts.append(layout)
        self.layouts.parent[load] = load
        self.layouts.of_group[load] = Place(layout)
        del self.staged[load]


def _exchange_bytes(s: p.Relayout) -> int:
    """LDS that ``pk::exchange`` (relayout.h) takes, rounded as ``pk::scratch`` does."""
    layout, size = s.place.layout, DTYPES[s.dtype].bytes
    rows, cols = (layout.rows, layout.cols) if s.place.side == "tile" else (s.place.size, 1)
    line = size if cols == 1 else cols * size + 16
    slab = next((n for n in (1 << k for k in range(rows.bit_length(), 0, -1)) if rows % n == 0 and n * line <= SLAB_BYTES), 1)
    taken = slab * line
    return 1024 if taken <= 1024 else SLAB_BYTES if taken <= SLAB_BYTES else taken


class HipPrinter(Printer):
    """Words whose form is AMD's own: operands know which way they lie, and pipelines go through registers."""

    def kernel(self, k: KernelPlan) -> list[str]:
        self.plan, self.names = k, k.free_names()
        match k:
            case PingPongPlan():
                return print_pingpong(self, k)
            case AttentionPlan():
                return print_attention(self, k)
        return super().kernel(k)

    def layout(self, x: Layout) -> str:
        if x.kind == "quarters":
            waves = ", 2, 2" if isinstance(self.plan, PingPongPlan) and self.plan.quarters else ""
            return f"pk::Quarters<{x.rows}, {x.cols}, {self.dialect.type(x.element)}{waves}>"
        if x.kind in ("left", "left32", "accumulator32"):
            word = {"left": "LeftOperand", "left32": "LeftOperand32", "accumulator32": "Accumulator32"}[x.kind]
            return f"pk::{word}<{x.rows}, {x.cols}, {self.plan.warps}, {self.dialect.type(x.element)}>"
        if x.kind == "accumulator" and not keeps_rows(self.plan.family, self.dialect.subgroup):
            across = waves_across(x.rows, x.cols, self.plan.warps)
            return super().layout(x).removesuffix(">") + f", {across}>"
        return super().layout(x)

    def shared_type(self, s: Shared) -> str:
        if (strip := strips_of(self.plan).get(s.name)) is not None:
            return strip_type(self, strip, self.plan.threads)
        # A left operand is m x k, a right one k x n; transposed ones the other way round.
        depth = "along_cols" if (s.role == "A") != s.transposed else "along_rows"
        return f"pk::Shared<{self.dialect.type(s.dtype)}, {s.rows}, {s.cols}, pk::Depth::{depth}, {self.plan.threads}>"

    def operand(self, x: p.Operand) -> str:
        return x.name if x.shared is None else self.slot(x.shared, x.slot)

    def on_LoadQueries(self, s: LoadQueries) -> list[str]:
        call = self.word("load_queries", self.place(s.place), s.origin, s.stride, s.rows_left, s.features)
        return [f"auto {s.name} = {call};"]

    def mapping(self, s: p.Map) -> str:
        return "map_by_fours" if isinstance(s, MapByFours) else super().mapping(s)

    def on_MapByFours(self, s: MapByFours) -> list[str]:
        return self.on_Map(s)

    def on_Commit(self, s: p.Commit) -> list[str]:
        return []

    def on_Wait(self, s: p.Wait) -> list[str]:
        return []

    def on_StripWalk(self, s: StripWalk) -> list[str]:
        return print_walk(self, s)

    def on_Loop(self, s: p.Loop) -> list[str]:
        lines = super().on_Loop(s)
        if s.pipeline is None and any(isinstance(x, p.Dot) for x in s.body):
            return [_ONE_STEP, *lines]
        begin, end = number(s.begin), number(s.end)
        if s.pipeline is None and begin is not None and end is not None and any(isinstance(x, p.LoadTile) for x in s.body):
            steps = -(-(end - begin) // s.step)  # with a remainder the compiler would unroll them all
            return [_SOME_STEPS.format(next(n for n in (4, 2, 1) if steps % n == 0)), *lines]
        return lines

    def pipelined(self, s: p.Loop, pipe: p.Pipeline) -> list[str]:
        """Two LDS buffers; the next step's operands are on their way to registers while this step's are multiplied, and
        go to the other buffer after that.  One barrier a step."""
        vectors, body = loaded_ahead(s) if self.dialect.subgroup == WAVE_OF_CDNA else ([], list(s.body))
        names = {c.shared.name: self.names.fresh(f"{c.shared.name.removesuffix('_shared')}_next") for c in pipe.copies}
        names |= {v.name: self.names.fresh(f"{v.name.removesuffix('_tile')}_next") for v in vectors}
        from_zero = number(s.begin) == 0
        first = "0" if from_zero else self.names.fresh(f"first_{s.var}")
        lines = [f"auto {names[c.shared.name]} = pk::held({c.shared.name}[0]);" for c in pipe.copies]
        lines += [f"pk::Tile<{self.dialect.type(v.dtype)}, {self.place(v.place)}> {names[v.name]};" for v in vectors]
        fetches = [x for v in vectors for x in self.on_LoadTile(replace(v, name=names[v.name], define=False))]
        fetches += [f"pk::fetch({', '.join(map(str, (names[c.shared.name], *self.address(c.access))))});" for c in pipe.copies]
        fetch = self.names.fresh(f"fetch_{pipe.stage.removeprefix('stage_')}")
        lines += [f"auto {fetch} = [&](int64_t {s.var}) PK_INLINE {{", *indented(fetches), "};"]

        def put(slot: str) -> list[str]:
            return [f"pk::put({c.shared.name}[{slot}], {names[c.shared.name]});" for c in pipe.copies]

        if not from_zero:
            lines.append(f"const int64_t {first} = {s.begin};")
        begin = [f"{fetch}({first});", *put("0")]
        lines += begin if from_zero and number(s.end) is not None else [f"if ({first} < {s.end}) {{", *indented(begin), "}"]
        lines.append(f"int {pipe.slot} = 0;")
        ahead = f"{s.var} + {s.step}"
        lines_of_step = [
            "pk::sync();  // this step's operands are complete, and the other buffer has been read",
            *(f"auto {v.name} = {names[v.name]};" for v in vectors),
            f"if ({ahead} < {s.end}) {fetch}({ahead});  // from memory to registers, while this step is multiplied",
            *self.statements(body),
            f"{pipe.slot} ^= 1;",
            f"if ({ahead} < {s.end}) {{", *indented(put(pipe.slot)), "}",
        ]  # fmt: skip
        head = f"for (int64_t {s.var} = {first}; {s.var} < {s.end}; {s.var} += {s.step}) {{"
        return [*lines, _ONE_STEP, head, *indented(lines_of_step), "}"]


class HipEmitter(CLikeEmitter):
    """Emits HIP C++ that clang compiles with nothing of ROCm installed."""

    suffix = ".hip"
    include = "pk/pk.h"
    headers = HEADERS
    planner = HipPlanner
    printer = HipPrinter

    def dialect(self, target: Target) -> Dialect:
        return Dialect(
            "HIP", subgroup=subgroup(target.device), role_matters=True,
            register_operands=frozenset({("A", "accumulator"), ("A", "left")}), private_walks=True, takes_parts=True,
            member="PK_FN", single="v[0][0]", sorts=True, times="pk::times({0}, {1})",
            apart=frozenset({"f64"}),  # see MatrixCols in layout.h
        )  # fmt: skip

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        found = dict.fromkeys(super().missing(program, target))
        for kernel in program.kernels:
            for op in tiles_of(kernel.body):
                if isinstance(op, t.Dot):
                    line = where(program, op, kernel)
                    missing = _missing_dot(op, target.device, line) or _uneven(op, kernel, target.device, line)
                    found.update(dict.fromkeys(missing))
        return list(found)

    def plan_kernel(self, kernel: t.Kernel, dialect: Dialect, target: Target) -> KernelPlan:
        if kernel.schedule.stages > MAX_STAGES:
            raise ScheduleError(
                f"{kernel.name}: stages={kernel.schedule.stages} on {target}",
                hint="operands pass through registers on their way to LDS: stages is 1 or 2",
            )
        kernel = by_powers_of_two(kernel, fused=True, may=of_narrow_products)
        kernel = with_fused_sums(reduced_once(kernel, dialect.subgroup * kernel.schedule.warps, lines=False))
        if not _rows_stay_in_waves(kernel, target.device):
            dialect = replace(dialect, register_operands=frozenset())
        planner = self.planner(kernel, dialect)
        plain = with_capped_scores(_by_tiles_of_32(planner.plan(), target), kernel)
        made = attention_in_turns(plain, planner, target) if kernel.family == "attention" else pingpong(plain, planner, target)
        fits = self.operand_bytes(made) <= target.device.count("shared_bytes_per_block")
        if isinstance(made, PingPongPlan | AttentionPlan) or kernel.schedule.stages == 1:
            return made
        if fits:
            return with_strips(replace(made, body=flattened(made.body)), planner, target)
        # Tiles that were chosen for waves that take turns, where something stands in the way: one slot, then.
        return self.planner(replace(kernel, schedule=replace(kernel.schedule, stages=1)), dialect).plan()

    def scratch_bytes(self, plan: KernelPlan) -> int:
        exchanges = [s for s in p.statements(plan.body) if isinstance(s, p.Relayout) and s.word in ("relayout", "transpose")]
        return sum({_exchange_bytes(s) for s in exchanges})

    def title(self, program: Program, target: Target) -> str:
        device = target.device
        wave = subgroup(device)
        return f"// {program.name} for AMD {device.title} ({device.isa}, waves of {wave} lanes), generated by portakern."


def _by_tiles_of_32(plan: KernelPlan, target: Target) -> KernelPlan:
    """Attention by matrix instructions of 32 x 32 where every wave has whole tiles of that: a row is in two lanes then, not in
    four, and its maximum and sum take one exchange.  Products of others may have their sums in the same layout."""
    spread = [x for x in plan.layouts if x.kind in ("accumulator", "left")]
    dots = [s for s in p.statements(plan.body) if isinstance(s, p.Dot)]
    if (
        not keeps_rows(plan.family, subgroup(target.device))
        or not target.device.has("mfma")
        or any(s.element not in _16_BIT for s in dots)
        or any(x.element not in _16_BIT or x.rows % (32 * plan.warps) or x.cols % 32 for x in spread)
    ):
        return plan
    return p.relaid(plan, {x: replace(x, kind=x.kind + "32") for x in spread})


def _rows_stay_in_waves(kernel: t.Kernel, device: Device) -> bool:
    """Whether left operands may be in registers: each wave holds whole rows of 16, and multiplies on matrix cores."""
    dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
    return keeps_rows(kernel.family, subgroup(device)) and all(
        on_matrix_cores(device, t.tile_type(op.lhs).dtype) and dims_of(op)[0][1] % (16 * kernel.schedule.warps) == 0
        for op in dots
    )


def _missing_dot(op: t.Dot, device: Device, line: str) -> list[Missing]:
    dtype, acc = t.tile_type(op.lhs).dtype, t.tile_type(op).dtype
    found: list[Missing] = []
    if dtype not in _SUMS or (dtype not in _BY_LANES and not on_matrix_cores(device, dtype)):
        found.append(Missing(f"HIP has no matrix product of {dtype} on {device.name}", line, "f16"))
    elif acc != _SUMS[dtype]:
        found.append(Missing(f"HIP accumulates products of {dtype} in {_SUMS[dtype]}, not {acc}", line, _SUMS[dtype]))
    if op.precision not in ("ieee", "tf32", "fp8_fast"):  # products of 8-bit floats are as exact as any here
        found.append(Missing(f"HIP has no products of precision {op.precision}", line, "ieee"))
    if not found:
        found += _too_small(op, device, line)
    return found


def matrix_depth(dtype: str, device: Device) -> int:
    """What the depth of a tile has to be a multiple of, so that whole instructions multiply operands of ``dtype``."""
    return {1: 64, 2: 32}.get(DTYPES[dtype].bytes, 16) if device.has("mfma") else 16


def _too_small(op: t.Dot, device: Device, line: str) -> list[Missing]:
    """Tiles below the matrix instruction's; schedules never ask for them."""
    depth = matrix_depth(t.tile_type(op.lhs).dtype, device)
    sizes = [n for _, n in dims_of(op)]
    k = t.tile_type(op.lhs).size(op.axis) if op.axis in t.tile_type(op.lhs).axes else 0
    if len(sizes) == 2 and (any(n % 16 for n in sizes) or k % depth):
        return [
            Missing(
                f"a product of {sizes[0]} x {k} by {k} x {sizes[1]} tiles",
                line,
                f"m and n in multiples of 16, k in multiples of {depth}",
            )
        ]
    return []


def _uneven(op: t.Dot, kernel: t.Kernel, device: Device, line: str) -> list[Missing]:
    """Waves that do not have equal parts of the accumulator (pk::Accumulator); schedules never ask for them."""
    sizes, warps = [size for _, size in dims_of(op)], kernel.schedule.warps
    if len(sizes) != 2:
        return []
    rows, cols = sizes
    cores = on_matrix_cores(device, t.tile_type(op.lhs).dtype)
    if shared_evenly(rows, cols, warps, kernel.family, cores, subgroup(device)):
        return []
    return [Missing(f"a product of {rows} x {cols} elements shared by {warps} waves", line, "fewer warps, or larger tiles")]
