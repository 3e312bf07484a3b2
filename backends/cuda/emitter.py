"""Programs as CUDA C++: the C family's plan, with what is particular to NVIDIA's matrix unit and shared memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from portakern.backend import Launch, Missing, Source, Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import CLikeEmitter, Dialect, KernelPlan, ProgramPlan, included, reached, read_headers
from portakern.emit.clike.flat import flattened
from portakern.emit.clike.layouts import dims_of
from portakern.emit.partials import reduced_once
from portakern.emit.softmax import by_powers_of_two, of_narrow_products
from portakern.emit.sums import with_fused_sums
from portakern.emit.where import where
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.functions import BINARY, UNARY
from portakern.ir.program import Program

from .addresses import CudaPlanner
from .attention import WalkPlan, walked
from .blackwell import in_tensor_memory
from .chain import ChainPlan, fed_chain
from .exact import with_exact_sums
from .hopper import MOVERS, NarrowPlan, PipelinePlan, narrowed, packed, pipelined
from .lines import in_lines
from .plans import KEPT, MULTIPLIED, CudaKernelPlan, operands_are_static, products_of, scratch_bytes, shared_operand_bytes
from .printer import DIALECT, CudaPrinter
from .side_by_side import joined
from .thirds import WAYS, by_thirds, in_thirds

INCLUDE = Path(__file__).parent / "include"
MATRIX_OPERANDS = {*MULTIPLIED, "f32", "f64"}
PRECISIONS = {"ieee": MATRIX_OPERANDS, "tf32": {"f32"}, "fp8_fast": {"f8e4m3", "f8e5m2"}}
"""Which operands are multiplied with each precision."""
INSTRUCTIONS = ("sync", "wgmma", "tcgen05", "fma")
"""What ``mma`` may ask for beside the ways of f32."""
DYNAMIC = (PipelinePlan, NarrowPlan, WalkPlan, ChainPlan)
"""Plans that lay out their shared memory by themselves."""

OPTIONS = {
    "mma": "instructions of products, of 16 bits: sync (mma.sync), wgmma (sm_90a) or tcgen05 (sm_100a; both where tiles allow "
    "it), or auto; of f32: "
    "bf16x6 (six of bf16 by mma.sync), bf16x6-wgmma, fma, or auto",
    "copies": "who copies the operands of wgmma to shared memory: threads, engine (TMA, in a pipeline between warps), or auto",
    "stores": "who writes the result of such a pipeline: threads, engine (through shared memory), or auto",
    "blocks": "rows, scans, elementwise: how many blocks an SM must be able to hold; 0: as registers allow",
    "keep": "rows, scans, elementwise: which lines L2 shall give up last: those of loads, of stores, or none",
    "split": "attention: 1: tiles of keys that every row of a block sees whole are walked first, without the mask",
    "heads": "attention (copies=engine): how many heads are taken at a time, so that their keys and values stay in L2; with a "
    "causal mask head after head is taken",
    "lag": "attention: by how many powers of two a row's maximum may grow before its sums are scaled, 0 to 8; with "
    "copies=engine only steps scale them in which that happens",
    "cluster": "blocks that share operands, below each other x side by side (copies=engine): 1x1, 2x1, 1x2, 2x2, ... or auto",
    "band": "how many clusters of tiles high the bands are in which tiles are taken (copies=engine)",
}


class CudaEmitter(CLikeEmitter):
    """Needs no CUDA to emit."""

    suffix = ".cu"
    planner = CudaPlanner
    printer = CudaPrinter

    def dialect(self, target: Target) -> Dialect:
        return DIALECT

    def plan(self, program: Program, target: Target) -> ProgramPlan:
        return super().plan(packed(program, target), target)

    def arranged(self, plan: ProgramPlan) -> ProgramPlan:
        return joined(plan)

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        found = list(super().missing(program, target))
        for kernel in program.kernels:
            for op in kernel.body.walk():
                found += [m for m in _unsupported(op, where(program, op, kernel)) if m not in found]
            line, warps = where(program, kernel), kernel.schedule.warps
            if warps & (warps - 1) or not 1 <= warps <= 16:
                found.append(Missing(f"{kernel.name} with {warps} warps", line, "1, 2, 4, 8 or 16 warps"))
            asked = kernel.schedule.option("mma", "auto")
            if asked not in ("auto", *INSTRUCTIONS, *WAYS):
                found.append(Missing(f"the option mma={asked}", line, f"auto, {', '.join(INSTRUCTIONS)}, {' or '.join(WAYS)}"))
            if kernel.schedule.option("keep", "none") not in KEPT:
                found.append(Missing(f"the option keep={kernel.schedule.option('keep', '')}", line, ", ".join(KEPT)))
            for name in ("copies", "stores"):
                chosen = kernel.schedule.option(name, "auto")
                if chosen not in MOVERS:
                    found.append(Missing(f"the option {name}={chosen}", line, "auto, threads or engine"))
        return found

    def emit(self, program: Program, target: Target) -> Source:
        return replace(super().emit(packed(program, target), target), schedule=tuple(k.schedule for k in program.kernels))

    def plan_kernel(self, kernel: t.Kernel, dialect: Dialect, target: Target) -> CudaKernelPlan:
        if kernel.family == "attention":
            return self.plan_attention(kernel, dialect, target)
        kernel = by_powers_of_two(with_exact_sums(kernel), fused=True, may=_of_chains)
        kernel = with_fused_sums(reduced_once(kernel, dialect.subgroup * kernel.schedule.warps, lines=False))
        plain = super().plan_kernel(kernel, dialect, target)
        asked = str(kernel.schedule.option("mma", "auto"))
        thirds = by_thirds(plain, asked, target)
        plan = plain if thirds else in_lines(plain)
        made = CudaKernelPlan(**vars(plan), products=thirds or products_of(plan, asked, target),
                              at_once=int(kernel.schedule.option("blocks", 0)),
                              keep=str(kernel.schedule.option("keep", "none")))  # fmt: skip
        planned = fed_chain(made, kernel, target) if kernel.family == "chain" else in_tensor_memory(made, kernel, target)
        if planned is made:
            planned = pipelined(narrowed(made, kernel, target), kernel, target)
        if isinstance(planned, DYNAMIC):
            return planned
        flat = replace(planned, body=flattened(planned.body))
        return replace(flat, **in_thirds(flat)) if flat.products in WAYS.values() else flat

    def plan_attention(self, kernel: t.Kernel, dialect: Dialect, target: Target) -> CudaKernelPlan:
        plan = CudaKernelPlan(**vars(in_lines(super().plan_kernel(by_powers_of_two(kernel, fused=True), dialect, target))))
        walk = walked(plan, kernel, target)
        if isinstance(walk, WalkPlan):
            return walk
        return replace(plan, products=products_of(plan, str(kernel.schedule.option("mma", "auto")), target))

    def includes(self, words: Collection[str]) -> list[str]:
        return [f"pk/{home}.cuh" for home in sorted({HOME[x] for x in words if x in HOME})] or ["pk/base.cuh"]

    def library(self) -> tuple[tuple[str, str], ...]:
        return library()

    def title(self, program: Program, target: Target) -> str:
        title = target.device.title.removeprefix("NVIDIA ")  # products say it, instruction sets do not
        line = f"// {program.name} for NVIDIA {title} ({target.device.isa}), generated by portakern."
        if target.device.isa in ("sm_100a", "sm_120"):
            line += " Compiled only: it has run on no silicon."
        return line

    def launch(self, k: KernelPlan, dialect: Dialect, target: Target) -> Launch:
        made = super().launch(k, dialect, target)
        if isinstance(k, NarrowPlan):
            return replace(made, cluster=(k.parts, 1, 1), maps=k.maps)
        if isinstance(k, WalkPlan | ChainPlan):
            return replace(made, block=(k.block, 1, 1), maps=k.maps)
        if not isinstance(k, PipelinePlan):
            return made
        cluster = (k.cluster[0] * k.cluster[1], 1, 1)
        return replace(made, block=(k.block, 1, 1), cluster=cluster, maps=k.maps)

    def operand_bytes(self, plan: KernelPlan) -> int:
        return plan.dynamic_bytes if isinstance(plan, DYNAMIC) else shared_operand_bytes(plan)

    def shared_bytes(self, plan: KernelPlan, dialect: Dialect, target: Target) -> int:
        return self.operand_bytes(plan) if isinstance(plan, DYNAMIC) or not operands_are_static(plan) else 0

    def scratch_bytes(self, plan: KernelPlan) -> int:
        return 0 if isinstance(plan, DYNAMIC) and not isinstance(plan, ChainPlan) else scratch_bytes(plan)


def _of_chains(kernel: t.Kernel) -> bool:
    return kernel.family == "chain" and of_narrow_products(kernel)


# ---- the headers a text needs ------------------------------------------------------------------------------------------

_HELD = {
    "ahead": ("ahead",),
    "atomic": ("store_add", "store_max"), "combine": ("combine", "reduce_own"), "dot": ("Accumulator", "StackedAccumulator"),
    "few_rows": ("few_rows", "few_rows_of"), "gather": ("gather", "along"),
    "pixels": ("part", "wide_part", "columns", "cross", "listed"),
    "math": (*UNARY, *BINARY, "minus", "fma", "exp2_flushed"), "memory": ("load", "store"), "outbox": ("Outbox",),
    "pipeline": ("Pipeline",), "reduce": ("reduce_cols", "reduce_rows"), "relayout": ("relayout", "transpose"),
    "scan": ("scan_cols",), "scan_by": ("scan_by",), "shared": ("Shared", "Lines", "stage", "put", "sync"),
    "sort": ("sorted_order", "in_order"), "thirds": ("all_finite",), "thirds_wgmma": ("Thirds", "sum_of"),
    "shifted": ("load_shifted", "store_rows", "load_between", "store_between", "RowWriter"),
    "tensor_memory": ("TensorAccumulator", "TensorPipeline"),
    "tile": ("map", "fill"), "vector_product": ("row_times_rows", "row_times_columns", "row_times_columns_of"),
    "rings": ("RowBlocks", "page_table", "pack"), "tensor_walk": ("TensorRows", "TensorWalk"),
    "walk": ("start_product", "complete"),
    "wgmma": ("WarpgroupAccumulator",),
}  # fmt: skip
HOME = {word: header for header, words in _HELD.items() for word in words}
"""Words of the vocabulary -> the header that holds them, but for those that come with others."""


@cache
def library() -> tuple[tuple[str, str], ...]:
    """All headers, as (name, text)."""
    return read_headers(INCLUDE / "pk")


def included_headers(text: str) -> tuple[tuple[str, str], ...]:
    """The library's headers that ``text``, which somebody wrote, includes, and those that they include, as (name, text)."""
    return reached(included(text), library())


# ---- what there is no rule for ------------------------------------------------------------------------------------------


def _unsupported(op: Op, line: str) -> list[Missing]:
    if isinstance(op, t.Dot):
        dtype = t.tile_type(op.lhs).dtype
        if dtype not in MATRIX_OPERANDS:
            return [Missing(f"a matrix product of {dtype}", line, "bf16, f16 or i8")]
        if op.precision not in PRECISIONS or dtype not in PRECISIONS[op.precision]:
            return [Missing(f"the precision {op.precision} of {dtype} operands", line, "ieee")]
        return _too_small(op, line)
    if isinstance(op, t.Store) and op.mode != "set":
        dtype = t.tile_type(op.value).dtype
        allowed = ("f32", "f64", "i32", "i64") if op.mode == "add" else ("f32", "i32", "i64")
        if dtype not in allowed:
            return [Missing(f"an atomic {op.mode} of {dtype}", line, "f32")]
    return []


def _too_small(op: t.Dot, line: str) -> list[Missing]:
    """Tiles below what one instruction of a warp multiplies (pk::Accumulator); default schedules never ask for them."""
    lhs, dims = t.tile_type(op.lhs), dims_of(op)
    if len(dims) != 2 or op.axis not in lhs.axes:
        return []
    (_, m), (_, n), k = *dims, lhs.size(op.axis)
    units = (16, 8, 8) if op.precision == "tf32" else (4, 8, 4)
    if lhs.dtype in MULTIPLIED:
        size = DTYPES[lhs.dtype].bytes
        along_n = t.tile_type(op.rhs).axes[-1] != op.axis  # n is the line of a tile in shared memory, copied 16 bytes at a time
        units = (16, max(8, 16 // size) if along_n else 8, 32 // size)
    if not any(size % unit for size, unit in zip((m, n, k), units, strict=True)):
        return []
    return [Missing(f"a product of {m} x {k} by {k} x {n} tiles", line,
                    "m, n and k in multiples of {}, {} and {}".format(*units))]  # fmt: skip
