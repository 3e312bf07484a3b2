"""Programs as CUDA C++: the C family's plan, with what is particular to NVIDIA's matrix unit and shared memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from portakern.backend import Missing, Source, Target
from portakern.dtypes import DTYPES
from portakern.emit.clike import TYPES, CLikeEmitter, Dialect, KernelPlan, Printer, read_headers
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import Layout
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.core import Op
from portakern.ir.program import Program

from .addresses import CudaAccess, CudaPlanner

INCLUDE = Path(__file__).parent / "include"
AUTO_WGMMA = True
"""Whether wgmma is taken wherever it can be: on an H200 it did a bf16 product of 4096^3 in 0.62 of the time of mma.sync."""

STATIC_SHARED = 32 << 10
"""Operands up to this many bytes are declared as static shared memory, of which a block has 48 KB; the library needs
some for itself (see ``scratch_bytes``)."""

_DIALECT = Dialect(
    "CUDA C++",
    types={name: text for name, text in TYPES.items() if not name.startswith("f8")},
    register_operands=frozenset({("A", "accumulator")}),
)
_MATRIX_OPERANDS = {"bf16", "f16", "f32", "f64"}

ALIGNED = "pk::Aligned"

OPTIONS = {"mma": "instructions of 16-bit matrix products: sync (mma.sync), wgmma (sm_90a, where tiles allow it), or auto"}


class _WarpgroupDialect(Dialect):
    """Operands are announced to the matrix unit, which reads them from shared memory by itself."""

    def word(self, name: str, template: str = "", *args: str) -> str:
        if name in ("wait", "put"):
            template = ", ".join(filter(None, (template, "pk::ByMatrixUnit")))
        return super().word(name, template, *args)


_WARPGROUP_DIALECT = _WarpgroupDialect(**vars(_DIALECT))


@dataclass(frozen=True)
class CudaKernelPlan(KernelPlan):
    """``products`` says by which instructions the kernel's matrix products are done; empty where it has none."""

    products: str = ""

    def __str__(self) -> str:
        head, _, rest = super().__str__().partition("\n")
        return f"{head}\n    products by {self.products}\n{rest}" if self.products else f"{head}\n{rest}"


class CudaPrinter(Printer):
    """Prints vectors as wide as the memory system takes them, operands in dynamic shared memory where they are large."""

    def kernel(self, k: KernelPlan) -> list[str]:
        self.dialect = _WARPGROUP_DIALECT if by_warpgroups(k) else _DIALECT
        return super().kernel(k)

    def opening(self, k: KernelPlan) -> list[str]:
        if not any(isinstance(s, p.Dot) for s in statements(k.body)):
            return super().opening(k)
        # A product pays for registers with reuse: tell the compiler how few blocks on an SM will do.
        plain = self.dialect
        self.dialect = replace(plain, kernel=plain.kernel.replace("({threads})", f"({{threads}}, {least_blocks(k)})"))
        lines = super().opening(k)
        self.dialect = plain
        return lines

    def layout(self, x: Layout) -> str:
        text = super().layout(x)
        if x.kind == "accumulator":
            if by_warpgroups(self.plan):
                return text.replace("pk::Accumulator", "pk::WarpgroupAccumulator")
            if chained(self.plan):
                text = text.replace("pk::Accumulator", "pk::StackedAccumulator")
            return text.replace(", float>", ", pk::tf32>") if precision_of(self.plan, x) == "tf32" else text
        width = vector_width(self.plan, x)
        return text if width == 8 else text[:-1] + f", {width}>"

    def shared(self, k: KernelPlan) -> list[str]:
        if shared_operand_bytes(k) <= STATIC_SHARED:
            return super().shared(k)
        lines = ["extern __shared__ __align__(1024) unsigned char dynamic_shared[];"]
        for s, offset in zip(k.shared, shared_offsets(k), strict=False):
            kind = self.shared_type(s)
            place = f"dynamic_shared + {offset}" if offset else "dynamic_shared"
            lines.append(f"auto* {s.name} = reinterpret_cast<{kind}*>({place});"
                         + (f"  // {s.slots} slots" if s.slots > 1 else ""))
        return lines

    def on_LoadTile(self, s: p.LoadTile) -> list[str]:
        template = self.place(s.place) + (f", {ALIGNED}" if aligned(s.access) else "")
        return self.define(s.name, s.define, self.dialect.word("load", template, *self.address(s.access, pad=True)))

    def on_StoreTile(self, s: p.StoreTile) -> list[str]:
        if s.mode != "set" or not aligned(s.access):
            return super().on_StoreTile(s)
        return [self.dialect.word("store", ALIGNED, s.value, *self.address(s.access)) + ";"]

    def on_Stage(self, s: p.Stage) -> list[str]:
        template = str(self.plan.threads) + (f", {ALIGNED}" if aligned(s.access) else "")
        return [self.dialect.word("stage", template, self.slot(s.shared, s.slot), *self.address(s.access)) + ";"]


class CudaEmitter(CLikeEmitter):
    """Needs no CUDA to emit."""

    suffix = ".cu"
    planner = CudaPlanner
    printer = CudaPrinter

    def dialect(self, target: Target) -> Dialect:
        return _DIALECT

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        found = list(super().missing(program, target))
        for kernel in program.kernels:
            for op in kernel.body.walk():
                found += [m for m in _unsupported(op) if m not in found]
            warps = kernel.schedule.warps
            if warps & (warps - 1) or not 1 <= warps <= 16:
                found.append(Missing(f"{kernel.name} with {warps} warps", alternative="1, 2, 4, 8 or 16 warps"))
            asked = kernel.schedule.option("mma", "auto")
            if asked not in ("auto", "sync", "wgmma"):
                found.append(Missing(f"the option mma={asked}", alternative="auto, sync or wgmma"))
        return found

    def emit(self, program: Program, target: Target) -> Source:
        source = super().emit(program, target)
        includes = "\n".join(f'#include "{name}"' for name in direct_headers(source.text))
        text = source.text.replace(self.include, includes, 1)
        return replace(source, text=text, headers=included_headers(text))

    def plan_kernel(self, kernel: t.Kernel, dialect: Dialect, target: Target) -> CudaKernelPlan:
        plan = super().plan_kernel(kernel, dialect, target)
        return CudaKernelPlan(**vars(plan), products=_products(plan, str(kernel.schedule.option("mma", "auto")), target))

    def head(self, program: Program, target: Target) -> list[str]:
        line = f"// {program.name} for NVIDIA {target.device.title} ({target.device.isa}), generated by portakern."
        if target.device.isa in ("sm_100a", "sm_120"):
            line += " Compiled only: it has run on no silicon."
        return [line, self.include]

    def shared_bytes(self, plan: KernelPlan, dialect: Dialect, target: Target) -> int:
        bytes_ = shared_operand_bytes(plan)
        return bytes_ if bytes_ > STATIC_SHARED else 0


# ---- facts about a plan ----------------------------------------------------------------------------------------------


def aligned(access: p.Access) -> bool:
    return isinstance(access, CudaAccess) and access.aligned


def statements(block: Sequence[p.Statement]) -> list[p.Statement]:
    """All statements, those inside loops (and the copies of their pipelines) too."""
    found: list[p.Statement] = []
    for s in block:
        found.append(s)
        if isinstance(s, p.Loop):
            found += statements(s.body)
            found += s.pipeline.copies if s.pipeline else ()
    return found


def chained(k: KernelPlan) -> bool:
    """Whether one product's result is another's operand: then warps hold whole rows, which stay in registers."""
    return any(isinstance(s, p.Dot) and s.a.shared is None for s in statements(k.body))


def least_blocks(k: KernelPlan) -> int:
    """Blocks that an SM should hold at once: with warpgroups and small accumulators as many as leave a thread 128 registers,
    so that one block's copies hide behind another's products.  Stores with a bounds check need more registers than that."""
    if not by_warpgroups(k) or any(isinstance(s, p.StoreTile) and s.access.left for s in statements(k.body)):
        return 1
    elements = max(s.place.layout.rows * s.place.layout.cols for s in statements(k.body) if isinstance(s, p.Dot))
    return max(1, 512 // k.threads) if elements <= 64 * k.threads else 1


def precision_of(k: KernelPlan, layout: Layout) -> str:
    return next((s.precision for s in statements(k.body) if isinstance(s, p.Dot) and s.place.layout == layout), "ieee")


def vector_width(k: KernelPlan, layout: Layout) -> int:
    """Elements of 16 bytes of the narrowest type that is loaded or stored in ``layout`` (at most 8)."""
    moved = [s for s in statements(k.body) if isinstance(s, p.LoadTile | p.StoreTile)]
    sizes = [DTYPES[s.dtype].bytes for s in moved if s.place is not None and s.place.layout == layout]
    return min(8, 16 // max(2, min(sizes, default=2)))


def shared_offsets(k: KernelPlan) -> list[int]:
    """Where each operand begins in shared memory, and the end: the library aligns them to 1024 bytes where that is a divisor
    of their size, else to 128 (see pk::Shared)."""
    found, end = [], 0
    for s in k.shared:
        size = s.rows * s.cols * DTYPES[s.dtype].bytes
        align = 128 if size % 1024 else 1024
        begin = -(-end // align) * align
        found.append(begin)
        end = begin + -(-size // align) * align * s.slots
    return [*found, end]


def shared_operand_bytes(k: KernelPlan) -> int:
    return shared_offsets(k)[-1]


# ---- which instructions do the products --------------------------------------------------------------------------------


def by_warpgroups(k: KernelPlan) -> bool:
    return isinstance(k, CudaKernelPlan) and k.products.startswith("wgmma")


def _products(k: KernelPlan, asked: str, target: Target) -> str:
    """The instructions that do the matrix products of ``k``.

    Raises :class:`ScheduleError` where wgmma was asked for and cannot be had.
    """
    dots = [s for s in statements(k.body) if isinstance(s, p.Dot)]
    if not dots:
        return ""
    if asked == "wgmma" or (asked == "auto" and AUTO_WGMMA):
        obstacle = _obstacle_to_wgmma(k, dots, target)
        if not obstacle:
            return "wgmma.m64nNk16 (warpgroups read both operands from shared memory)"
        if asked == "wgmma":
            raise ScheduleError(f"{k.name} cannot use wgmma on {target}: {obstacle}", hint="take mma=sync, or other tiles")
    elements = {(s.element, s.precision) for s in dots}
    names = {"bf16": "mma.sync.m16n8k16 (fragments by ldmatrix)", "f16": "mma.sync.m16n8k16 (fragments by ldmatrix)"}
    exact = "fused multiply-adds (no matrix instruction multiplies {} exactly)"
    return ", ".join(sorted({"mma.sync.m16n8k8 (tf32)" if precision == "tf32" else names.get(e, exact.format(e))
                             for e, precision in elements}))  # fmt: skip


def _obstacle_to_wgmma(k: KernelPlan, dots: Sequence[p.Dot], target: Target) -> str:
    """Why the products of ``k`` cannot be done by warpgroups; empty where they can."""
    if not target.device.has("wgmma"):
        return f"{target.device.name} does not have it"
    if any(s.element not in ("bf16", "f16") for s in dots):
        return "its operands have 16 bits"
    if any(s.a.shared is None or s.b.shared is None for s in dots):
        return "an operand comes from another product, in registers"
    for s in dots:
        rows, cols = s.place.layout.rows, s.place.layout.cols
        across = k.warps * 16 // rows if rows % 64 == 0 else 0
        if not across or k.warps * 16 % rows or cols % (64 * across):
            return f"{k.warps} warps do not share {rows} x {cols} elements in blocks of 64 rows and 64 columns or more"
    odd = next((x for x in k.shared if x.cols % 64 or x.rows % 8), None)
    return f"the operand {odd.name} is {odd.rows} x {odd.cols}, not in panels of 8 x 64" if odd else ""


# ---- the headers a text needs ------------------------------------------------------------------------------------------

# Words of the vocabulary -> the header that holds them. What one includes itself need not be named.
_HOME = {
    "atomic": r"store_(add|max)", "dot": r"dot\(", "math": r"(max|min|exp\w*|log\w*|sqrt|rsqrt|tanh|sigmoid|erf|sin|cos|"
    r"floor|ceil|round|sign|abs|isnan|pow|rem|floordiv)\(", "memory": r"(load|store)[<(]", "reduce": r"reduce_",
    "relayout": r"(relayout|transpose)<", "shared": r"(Shared|stage|put|sync)\b", "tile": r"(map|fill)<",
    "wgmma": r"WarpgroupAccumulator",
}  # fmt: skip


@cache
def library() -> dict[str, str]:
    """Text of each header by the name it is included by."""
    return dict(read_headers(INCLUDE / "pk"))


def direct_headers(text: str) -> list[str]:
    """The headers whose words ``text`` uses, in alphabetic order."""
    found = {home for home, words in _HOME.items() if re.search(rf"\bpk::{words}", text)}
    if "wgmma" in found:
        found.discard("dot")  # its products are others
    return [f"pk/{home}.cuh" for home in sorted(found)] or ["pk/base.cuh"]


def included_headers(text: str) -> tuple[tuple[str, str], ...]:
    """The library's headers that ``text`` includes, and those that they include, as (name, text)."""
    known, todo, found = library(), _included(text), set()
    while todo:
        name = todo.pop()
        if name in known and name not in found:
            found.add(name)
            todo += _included(known[name])
    return tuple((name, known[name]) for name in sorted(found))


def _included(text: str) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*"(pk/[^"]+)"', text, re.MULTILINE)


# ---- what there is no rule for ------------------------------------------------------------------------------------------


def _unsupported(op: Op) -> list[Missing]:
    where = str(op.loc or "")
    if isinstance(op, t.Dot):
        dtype = t.tile_type(op.lhs).dtype
        if dtype not in _MATRIX_OPERANDS:
            return [Missing(f"a matrix product of {dtype}", where, "bf16 or f16")]
        if op.precision not in ("ieee", "tf32") or (op.precision == "tf32" and dtype != "f32"):
            return [Missing(f"the precision {op.precision} of {dtype} operands", where, "ieee")]
    if isinstance(op, t.Store) and op.mode != "set":
        dtype = t.tile_type(op.value).dtype
        allowed = ("f32", "f64", "i32", "i64") if op.mode == "add" else ("f32", "i32", "i64")
        if dtype not in allowed:
            return [Missing(f"an atomic {op.mode} of {dtype}", where, "f32")]
    return []
