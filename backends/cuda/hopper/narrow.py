"""A row times a matrix: no work for the matrix unit, all for memory.

A block reads 128 columns; the contracted axis is shared out to the blocks of a cluster.  The first block of each cluster has
the sums and does what follows the product.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from portakern.backend import Target
from portakern.emit.clike import Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.ir import tile as t

from ..addresses import CudaAccess
from ..plans import CudaKernelPlan
from .planning import ANYWHERE, loads_of

COLUMNS, WARPS, PARTS, LOADS = 128, 8, 4, 8
"""Of 29 geometries for 1 x 8192 x 8192 bf16 on an H200 the best one for both ways of storing the matrix: 36 us, cuBLAS 36.6."""

_BLOCKS_AT_ONCE = 2
"""Blocks on an SM: as many as leave a thread registers for its loads of 16 bytes on their way."""


@dataclass(frozen=True)
class NarrowPlan(CudaKernelPlan):
    """``word`` is how the matrix is stored (row_times_rows or row_times_columns), ``arguments`` what it is given; ``before``
    and ``after`` surround the product."""

    word: str = ""
    acc: str = ""
    arguments: tuple[str, ...] = ()
    before: tuple[p.Statement, ...] = ()
    after: tuple[p.Statement, ...] = ()

    @property
    def dynamic_bytes(self) -> int:
        return (WARPS + 1) * COLUMNS * 4

    def __str__(self) -> str:
        head, _, rest = super().__str__().partition("    layout")
        cluster = f"    clusters of {PARTS} blocks share the contracted axis out; the first of each has the sums\n"
        return f"{head}{cluster}    layout{rest}"


def narrowed(plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> CudaKernelPlan:
    """``plan`` as a row times a matrix, where it is one and nothing else was asked for."""
    asked = (kernel.schedule.option("mma", "auto"), kernel.schedule.option("copies", "auto"))
    if asked != ("auto", "auto") or not (target.device.has("cluster") and target.device.has("wgmma")):
        return plan
    dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
    loops = [s for s in plan.body if isinstance(s, p.Loop)]
    if len(dots) != 1 or len(loops) != 1 or plan.warps != WARPS:
        return plan
    dot, loop = dots[0], loops[0]
    row, col = (axis for axis, _ in dims_of(dot))
    if kernel.axis[row].extent != 1 or kernel.axis[col].tile != COLUMNS or loop.begin != "0" or len(loop.body) != 1:
        return plan
    if loop.pipeline is None or any(not isinstance(s, (*ANYWHERE, p.Loop)) for s in plan.body):
        return plan
    wide = [a for a in kernel.grid if a.tile > 1 and a.name not in (row, col)]
    loads, stages = loads_of(dot), {s.shared: s for s in loop.pipeline.copies}
    assert isinstance(loop.body[0], p.Dot)
    step = loop.body[0]
    if wide or loads is None or not {step.a.shared, step.b.shared} <= set(stages) or step.element not in ("bf16", "f16"):
        return plan
    assert step.a.shared is not None and step.b.shared is not None
    return _plan(plan, loop, step, stages[step.a.shared].access, stages[step.b.shared].access, loads, dot.axis) or plan


def _plan(plan: CudaKernelPlan, loop: p.Loop, step: p.Dot, a: p.Access, b: p.Access, loads: Sequence[t.Load],
          depth: str) -> NarrowPlan | None:  # fmt: skip
    """``None`` where the matrix is not read 16 bytes at a time, or the sum begins elsewhere than at zero."""
    by_rows = dims_of(loads[1])[0][0] == depth
    if not isinstance(b, CudaAccess) or not b.aligned:
        return None
    at = plan.body.index(loop)
    start = next((s for s in plan.body[:at] if isinstance(s, p.Fill) and s.name == step.acc), None)
    origins = [_from_zero(x.origin, loop.var) for x in (a, b)]
    if start is None or start.value not in ("0.0f", "0") or None in origins:
        return None
    stride = a.strides[1] if dims_of(loads[0])[1][0] == depth else a.strides[0]
    left = [b.left[1 if by_rows else 0]] if b.left and b.left[1 if by_rows else 0] != str(COLUMNS) else []
    arguments = ("dynamic_shared", str(origins[0]), stride, str(origins[1]), b.strides[0], loop.end, *left)
    fields = {**vars(plan), "shared": (), "blocks": plan.blocks * PARTS,
              "products": f"fused multiply-adds; {PARTS} blocks of a cluster share the sums"}  # fmt: skip
    return NarrowPlan(
        **fields, word="row_times_rows" if by_rows else "row_times_columns", acc=step.acc, arguments=arguments,
        before=tuple(_shared_out(s) for s in plan.body[:at] if s is not start), after=plan.body[at + 1 :],
    )  # fmt: skip


def _from_zero(origin: str, var: str) -> str | None:
    """``origin`` without the loop's variable, or ``None`` where it is in another place than a summand's."""
    text = re.sub(rf" \+ {var}(?: \* \w+)?(?= |$)", "", origin)
    return None if re.search(rf"\b{var}\b", text) else text


def _shared_out(s: p.Statement) -> p.Statement:
    """Blocks of a cluster have the same tile."""
    return replace(s, text=s.text.replace("blockIdx.x", f"blockIdx.x / {PARTS}")) if isinstance(s, p.Scalar) else s


def print_narrow(printer: Printer, k: NarrowPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    plain = printer.dialect
    bounds = f"__cluster_dims__({PARTS}, 1, 1) __launch_bounds__({k.threads}, {_BLOCKS_AT_ONCE})"
    printer.dialect = replace(plain, kernel=plain.kernel.replace("__launch_bounds__({threads})", bounds))
    opening = Printer.opening(printer, k)
    printer.dialect = plain
    (acc,) = (x for x in k.layouts if x.kind == "accumulator")
    call = printer.dialect.word(k.word, f"{acc.name}, {PARTS}, {LOADS}", *k.arguments)
    body = [
        *(f"using {x.name} = pk::OneRow<{x.rows}, {x.cols}, {k.threads}>;  // one row, columns along {x.axes[1]}"
          if x is acc else line for x, line in zip(k.layouts, printer.usings(k), strict=True)),
        "extern __shared__ __align__(1024) unsigned char dynamic_shared[];",
        "",
        *printer.statements(k.before),
        f"// The blocks of a cluster sum parts of {acc.cols} columns; the first has the whole.",
        f"auto {k.acc} = {call};",
        f"if (pk::Cluster<1, {PARTS}>::rank() != 0) return;",
        *printer.statements(k.after),
    ]  # fmt: skip
    return [*opening, *("    " + line if line else "" for line in body), "}"]
