"""A row, or a few, times a matrix: work for memory.

A block reads the columns of one tile; the contracted axis is shared out to the blocks of a cluster and to their warps.  The
first block of each cluster has the sums and does what follows the product.  A matrix stored row by row comes through the copy
engine, where it can: each warp then has ``stages`` boxes of as many rows as the schedule's tile along the contracted axis.

From boxes, up to 16 rows are multiplied by the matrix unit with the operands exchanged (``few_rows``); what has one row only
is done by fused multiply-adds where it does not lie as the matrix unit takes it.

Several products of the same rows (:mod:`portakern.lower.pairs`) are one such work for memory: the warps of a block share out
the boxes of all their matrices, and all sums meet in what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from portakern.backend import Target, TensorMap
from portakern.emit.clike import Printer
from portakern.emit.clike import plan as p
from portakern.emit.clike.layouts import dims_of, tiles_of
from portakern.emit.clike.terms import ZERO, Name, PlanTerm, Word, divide, is_zero, number, whole, without
from portakern.errors import ScheduleError
from portakern.ir import tile as t
from portakern.ir.schedule import Nest, Schedule

from ..addresses import CudaAccess
from ..plans import BLOCK, CudaKernelPlan
from .planning import ANYWHERE, buffer_name, coordinate, described, loads_of, obstacle_to_map, origins_of

PARTS, LOADS = 4, 8
LEAST_COLUMNS = 128

_COLUMNS, _ROWS = 64, 32
"""Boxes of 4 KB.  1 x 8192 x 8192 bf16 on an H200: 32.4 us with two of them for each of 16 warps (32.7 by fused
multiply-adds), 33.3 with four for each of 8 warps, 33.8 and more with smaller ones; a kernel that only reads as many bytes
31.4, cuBLAS 35.2.  16 x 8192 x 8192: 34.0 us, 41.4 as a pipeline, cuBLAS 33.4."""

_SHAPES = ((16, 2, 1), (8, 3, 2))
"""Warps of a block, stages, and how many such blocks are counted on an SM."""

_BLOCKS_AT_ONCE = 2
"""Blocks on an SM: as many as leave a thread registers for its loads of 16 bytes on their way."""

_WIDTHS = (64, 128, 256)
_MOST_ROWS = 32
FEW = "few_rows"
_PANEL = 64
"""Elements along a row of a box for the matrix unit: the 128 bytes within which the copy engine exchanges places."""
_MEMORY = Word("dynamic_shared")
_APART = 4
"""Elements between the rows of a warp's sums."""
FEW_ROWS = 16
"""Rows up to which a product is a matter of reading its matrix."""
_DEEP = 256
"""Coordinates of the contracted axis in a box of columns: 16 bytes a lane."""


@dataclass(frozen=True)
class Boxes:
    """How the copy engine brings the matrices: ``slots`` boxes of ``lines`` rows, or columns, for each warp."""

    maps: tuple[TensorMap, ...]
    lines: int
    slots: int

    def bytes(self, warps: int) -> int:
        """Of all boxes of a block and a barrier for each; elements have 16 bits."""
        return warps * self.slots * (prod(self.maps[0].box) * 2 + 8)


@dataclass(frozen=True)
class NarrowProduct(p.Statement):
    """``name`` = ``word`` of ``arguments``, and of several ``matrices`` (maps, and where their batches are): the sums of the
    block."""

    NAMES = ("name",)
    MADE = ("name",)

    name: str
    word: str
    template: str
    arguments: tuple[PlanTerm, ...]
    note: str = ""
    matrices: tuple[tuple[PlanTerm, ...], ...] = ()

    def __str__(self) -> str:
        matrices = (f"[{', '.join(map(str, m))}]" for m in self.matrices)
        return f"{self.name} = {self.word}({', '.join([*map(str, self.arguments), *matrices])})"


@dataclass(frozen=True)
class SumOf(p.Statement):
    """``name`` = the sums of the product ``number``, of those that ``of`` has."""

    NAMES = ("name", "of")
    MADE = ("name",)

    name: str
    of: str
    number: int

    def __str__(self) -> str:
        return f"{self.name} = product {self.number} of {self.of}"


@dataclass(frozen=True)
class NarrowPlan(CudaKernelPlan):
    """``word`` is how the matrix is stored (row_times_rows or row_times_columns) or few_rows, ``arguments`` what it is given;
    ``before`` and ``after`` surround the product.  ``parts`` blocks of a cluster share the contracted axis; ``boxes`` is
    ``None`` where threads load the matrix.  ``rows`` of the left operand are multiplied.  ``accs`` are the sums, of each of
    several ``matrices`` or of the one in the arguments, with ``columns`` in a block."""

    word: str = ""
    accs: tuple[str, ...] = ()
    arguments: tuple[PlanTerm, ...] = ()
    matrices: tuple[tuple[PlanTerm, ...], ...] = ()
    before: tuple[p.Statement, ...] = ()
    after: tuple[p.Statement, ...] = ()
    columns: int = LEAST_COLUMNS
    parts: int = PARTS
    boxes: Boxes | None = None
    rows: int = 1
    by_rows: bool = True

    @property
    def blocks_at_once(self) -> int:
        """On an SM."""
        return 1 if self.boxes else _BLOCKS_AT_ONCE

    def scopes(self) -> tuple[p.Scope, ...]:
        return (p.Scope((*self.before, *self.product, *self.after)),)

    @property
    def product(self) -> tuple[p.Statement, ...]:
        (acc,) = (x for x in self.layouts if x.kind == "accumulator")
        how = f"{self.boxes.lines}, {self.boxes.slots}" if self.boxes else str(LOADS)
        if self.word == FEW:
            how = f"{self.rows}, {str(self.by_rows).lower()}, {how}"
        who = "The blocks of a cluster sum parts" if self.parts > 1 else "A block has the sums"
        each = f" of each of {len(self.accs)} matrices" if self.matrices else ""
        note = f"{who} of {acc.cols} columns{each}{', the first has the whole' if self.parts > 1 else ''}."
        if self.boxes:
            lines = "rows" if self.by_rows else "columns"
            note += f" Each warp has {self.boxes.slots} boxes of {self.boxes.lines} {lines} on their way."
        template = f"{acc.name}, {self.parts}, {how}"
        if not self.matrices:
            return (NarrowProduct(self.accs[0], self.word, template, self.arguments, note),)
        sums = self.free_names().fresh("sums")
        return (NarrowProduct(sums, f"{self.word}_of", template, self.arguments, note, self.matrices),
                *(SumOf(name, sums, number) for number, name in enumerate(self.accs)))  # fmt: skip

    @property
    def dynamic_bytes(self) -> int:
        sums = (self.warps + 1) * self.columns * 4
        if self.word == FEW:  # those of the warps lie where boxes were
            sums = max(FEW_ROWS * self.columns, self.threads) * 4 if self.parts > 1 else 0
        return (self.boxes.bytes(self.warps) if self.boxes else 0) + sums * len(self.accs)

    @property
    def maps(self) -> tuple[TensorMap, ...]:
        return self.boxes.maps if self.boxes else ()

    def __str__(self) -> str:
        head, _, rest = super().__str__().partition("    layout")
        cluster = f"    clusters of {self.parts} blocks share the contracted axis out; the first of each has the sums\n"
        cluster = cluster if self.parts > 1 else ""
        if self.boxes:
            size = " x ".join(map(str, self.boxes.maps[0].box))
            cluster += f"    each warp has {self.boxes.slots} boxes of {size} on their way\n"
        return f"{head}{cluster}    layout{rest}"


def narrow_schedules(nest: Nest, units: int) -> list[Schedule]:
    """Of a row times a matrix, best first: as many blocks as fit on the device at once, or nearly.  Of matrices that are stored
    row by row a block has whole boxes of columns of each."""
    m, n, k = (nest.role(x)[0] for x in "mnk")
    wide = _COLUMNS * nest.products if nest.across else _COLUMNS
    columns = -(-n.extent // wide) if isinstance(n.extent, int) else units
    blocks = max(1, columns * prod(a.extent if isinstance(a.extent, int) else 1 for a in nest.role("batch")))
    found: list[tuple[tuple[int, float], Schedule]] = []
    for warps, stages, at_once in _SHAPES:
        room = units * at_once
        # Clusters of four fill a device that far only: SMs of one come from one group of them (45 us for 33).
        parts = next(p for p in (4, 2, 1) if blocks * p <= (room // 2 if p == 4 else room) or p == 1)
        sizes = {m.name: 16, n.name: wide, k.name: _ROWS}
        tiles = tuple((a.name, sizes.get(a.name, 1)) for a in nest.axes)
        rounds = -(-blocks * parts // room)
        rank = (rounds, -round(blocks * parts / (rounds * room), 1))
        found.append((rank, Schedule(tiles, stages, warps, (("cluster", f"1x{parts}"),))))
    return [s for _, s in sorted(found, key=lambda x: x[0])]


def narrowed(plan: CudaKernelPlan, kernel: t.Kernel, target: Target) -> CudaKernelPlan:
    """``plan`` as a row times a matrix, where it is one and nothing else was asked for."""
    asked = (kernel.schedule.option("mma", "auto"), kernel.schedule.option("copies", "auto"))
    device = target.device
    if asked != ("auto", "auto") or not (device.has("cluster") and (device.has("wgmma") or device.has("tcgen05"))):
        return plan
    dots = [op for op in tiles_of(kernel.body) if isinstance(op, t.Dot)]
    loops = [s for s in plan.body if isinstance(s, p.Loop)]
    if not dots or len(loops) != 1:
        return plan
    dot, loop = dots[0], loops[0]
    row, col = (axis for axis, _ in dims_of(dot))
    columns = kernel.axis[col].tile
    rows = kernel.axis[row].extent
    if not isinstance(rows, int) or not 1 <= rows <= FEW_ROWS or columns * len(dots) not in _WIDTHS:
        return plan
    if plan.threads < max(columns, 256) or loop.begin != ZERO:
        return plan
    if loop.pipeline is None or len(loop.body) != len(dots) or any(not isinstance(s, (*ANYWHERE, p.Loop)) for s in plan.body):
        return plan
    wide = [a for a in kernel.grid if a.tile > 1 and a.name not in (row, col)]
    staged = {s.shared: s.access for s in loop.pipeline.copies}
    operands = [_operands(op, step, staged) for op, step in zip(dots, loop.body, strict=True) if isinstance(step, p.Dot)]
    first = operands[0] if operands else None
    if wide or first is None or any(x is None or x.left != first.left for x in operands):
        return plan
    matrices = [x for x in operands if x is not None]
    found = _plan(plan, kernel, loop, matrices, dot.axis)
    if found is None:
        return plan
    shared = target.device.count("shared_bytes_per_block")
    made = _by_matrix_unit(found, kernel, loop, matrices, (row, dot.axis, col), shared)
    if made is None and rows > 1:
        return plan
    made = made or _through_boxes(found, kernel, loop, matrices, (dot.axis, col), shared)
    if len(dots) > 1 and (made.boxes is None or (made.by_rows and made.word != FEW)):
        return plan
    loaded = made.boxes is None and made.word == "row_times_columns"
    return plan if loaded and columns // plan.warps % LOADS else made


@dataclass(frozen=True)
class _Operands:
    """Of a product: its step, what the left operand is loaded by, and the load of the matrix, both with their accesses."""

    step: p.Dot
    left: tuple[t.Load, p.Access]
    matrix: t.Load
    access: p.Access


def _operands(dot: t.Dot, step: p.Dot, staged: Mapping[p.Shared, p.Access]) -> _Operands | None:
    """``None`` where an operand is not copied from memory, or has not 16 bits."""
    loads, a, b = loads_of(dot), step.a.shared, step.b.shared
    if loads is None or a is None or b is None or not {a, b} <= set(staged) or step.element not in ("bf16", "f16"):
        return None
    return _Operands(step, (loads[0], staged[a]), loads[1], staged[b])


def _plan(plan: CudaKernelPlan, kernel: t.Kernel, loop: p.Loop, products: Sequence[_Operands], depth: str
          ) -> NarrowPlan | None:  # fmt: skip
    """``None`` where a matrix is not read 16 bytes at a time or lies otherwise than the first, or a sum begins elsewhere than
    at zero."""
    (lefts, a), b, matrix = products[0].left, products[0].access, products[0].matrix
    by_rows = dims_of(matrix)[0][0] == depth
    columns = products[0].step.place.layout.cols
    if any(not isinstance(x.access, CudaAccess) or not x.access.aligned for x in products):
        return None
    if any((dims_of(x.matrix)[0][0] == depth) != by_rows or x.step.place != products[0].step.place for x in products):
        return None
    at = plan.body.index(loop)
    accs = tuple(x.step.acc for x in products)
    starts = [s for s in plan.body[:at] if isinstance(s, p.Fill) and s.name in accs]
    left_at, right_at = (without(x.origin, loop.var) for x in (a, b))
    if len(starts) != len(accs) or not all(is_zero(s.value) for s in starts) or left_at is None or right_at is None:
        return None
    stride = a.strides[1] if dims_of(lefts)[1][0] == depth else a.strides[0]
    left = [b.left[1 if by_rows else 0]] if b.left and number(b.left[1 if by_rows else 0]) != columns else []
    arguments = (_MEMORY, left_at, stride, right_at, b.strides[0], loop.end, *left)
    parts = _parts(kernel)
    fields = {**vars(plan), "shared": (), "blocks": plan.blocks * parts, "products": _products("fused multiply-adds", parts)}
    return NarrowPlan(
        **fields, word="row_times_rows" if by_rows else "row_times_columns", accs=accs, arguments=arguments,
        before=tuple(_shared_out(s, parts) for s in plan.body[:at] if s not in starts), after=plan.body[at + 1 :],
        columns=columns, parts=parts, by_rows=by_rows,
    )  # fmt: skip


def _products(instructions: str, parts: int) -> str:
    return instructions + (f"; {parts} blocks of a cluster share the sums" if parts > 1 else "")


def _parts(kernel: t.Kernel) -> int:
    """Blocks of a cluster, as the option ``cluster`` says: 1x4 for four."""
    asked = str(kernel.schedule.option("cluster", "auto"))
    if asked == "auto":
        return PARTS
    if asked not in ("1x1", "1x2", "1x4", "1x8"):
        raise ScheduleError(f"{kernel.name} cannot share a row times a matrix out to clusters of {asked}",
                            hint="1x1, 1x2, 1x4 or 1x8 blocks")
    return int(asked[2:])


def _by_matrix_unit(plan: NarrowPlan, kernel: t.Kernel, loop: p.Loop, products: Sequence[_Operands],
                    dims: tuple[str, str, str], shared: int) -> NarrowPlan | None:  # fmt: skip
    """``plan`` with boxes that the matrix unit multiplies, or ``None``: it takes rows of the left operand that are contiguous
    and lie at multiples of 16 bytes, and boxes with 128 bytes of each row."""
    row, depth, col = dims
    load, left = products[0].left
    rows, lines = kernel.axis[row].extent, kernel.axis[depth].tile
    columns = _PANEL if plan.by_rows else lines
    across = len(products) * plan.columns // columns if plan.columns % columns == 0 else 0
    fits = lines % 16 == 0 and lines <= 256 and across and plan.warps % across == 0 and kernel.axis[row].tile == FEW_ROWS
    fits = fits and (rows != 1 or plan.by_rows)  # one row reads longer pieces of columns without the matrix unit
    contiguous = isinstance(left, CudaAccess) and left.aligned and dims_of(load)[1][0] == depth
    if not fits or not contiguous or plan.threads % plan.columns:
        return None
    boxed = _boxed(plan, kernel, loop, products, (depth, col), (lines, _PANEL), swizzle=128)
    if boxed is None or boxed.boxes is None:
        return None
    assert isinstance(rows, int)
    if rows * (columns + _APART) * 4 > boxed.boxes.slots * lines * _PANEL * 2:
        return None  # a warp's sums would not fit where its boxes were
    memory, origin, _, *more = boxed.arguments
    how = _products("mma.sync.m16n8k16, the operands exchanged", plan.parts)
    made = replace(boxed, word=FEW, rows=rows, products=how, arguments=(memory, origin, left.strides[0], *more))
    return made if made.dynamic_bytes <= shared else None


def _through_boxes(plan: NarrowPlan, kernel: t.Kernel, loop: p.Loop, products: Sequence[_Operands], dims: tuple[str, str],
                   shared: int) -> NarrowPlan:  # fmt: skip
    """``plan`` with the matrix brought by the copy engine, where that can be.

    Boxes have as many elements either way: rows of the block's columns, or columns of 256 coordinates.
    """
    rows = kernel.axis[dims[0]].tile
    columns = plan.columns * len(products)
    lines = rows if plan.by_rows else rows * columns // _DEEP
    across = columns // lines if lines and plan.columns % lines == 0 else 0
    if not (rows <= _MOST_ROWS and (plan.by_rows or (0 < across <= plan.warps and plan.warps % across == 0))):
        return plan
    made = _boxed(plan, kernel, loop, products, dims, (lines, plan.columns if plan.by_rows else _DEEP), swizzle=0)
    return made if made is not None and made.dynamic_bytes <= shared else plan


def _boxed(plan: NarrowPlan, kernel: t.Kernel, loop: p.Loop, products: Sequence[_Operands], dims: tuple[str, str],
           box: tuple[int, int], swizzle: int) -> NarrowPlan | None:  # fmt: skip
    """``plan`` with boxes of the matrices, or ``None`` where the copy engine cannot bring them."""
    order = list(dims if plan.by_rows else reversed(dims))
    loads = [x.matrix for x in products]
    if any(obstacle_to_map(x, order, kernel) for x in loads):
        return None
    assert loop.pipeline is not None
    names, origins = plan.free_names(), origins_of(plan, kernel)
    maps: list[TensorMap] = []
    matrices: list[tuple[PlanTerm, ...]] = []
    for load in loads:
        spec, batch = described(load, order, names.fresh(f"{buffer_name(load)}_map"), box, swizzle)
        maps.append(spec)
        matrices.append((Name(spec.name), *(coordinate(i, origins.__getitem__) for i in reversed(batch))))
    _, left, stride, _, _, depth, *_ = plan.arguments
    column = origins[dims[1]]
    several = tuple(matrices) if len(matrices) > 1 else ()
    (one, *batches), *_ = matrices
    arguments = (_MEMORY, left, stride, depth, column) if several else (_MEMORY, left, stride, one, depth, column, *batches)
    read = p.reads(plan.before, plan.after, arguments, several)
    arrays = {spec.array: next(q for q in plan.params if q.source == spec.array) for spec in maps}
    brought = tuple(p.KernelParam(x.name, arrays[x.array].dtype, "map", source=x.name) for x in maps)
    kept = [q for q in plan.params if q not in arrays.values() or q.name in read]
    before = p.used(plan.before, plan.after, arguments, several)
    return replace(plan, params=(*brought, *kept), arguments=arguments, matrices=several, before=before,
                   boxes=Boxes(tuple(maps), box[0], loop.pipeline.slots))


def _shared_out(s: p.Statement, parts: int) -> p.Statement:
    """Blocks of a cluster have the same tile."""
    if parts == 1 or not isinstance(s, p.Scalar):
        return s
    return replace(s, value=s.value.rewritten(lambda x: divide(x, whole(parts)) if x == BLOCK else x))


def print_narrow(printer: Printer, k: NarrowPlan) -> list[str]:
    """Lines of the kernel; ``printer`` prints the statements inside."""
    (acc,) = (x for x in k.layouts if x.kind == "accumulator")
    layout, rows = ("OneRow", "one row") if k.rows == 1 else ("FewRows", f"{k.rows} rows")
    body = [
        *(f"using {x.name} = pk::{layout}<{x.rows}, {x.cols}, {k.threads}>;  // {rows}, columns along {x.axes[1]}"
          if x is acc else printer.using(x) for x in k.layouts),
        "extern __shared__ __align__(1024) unsigned char dynamic_shared[];",
        "",
        *printer.statements([*k.before, *k.product]),
        *([f"if (pk::Cluster<1, {k.parts}>::rank() != 0) return;"] if k.parts > 1 else []),
        *printer.statements(k.after),
    ]  # fmt: skip
    return [*printer.opening(k), *("    " + line if line else "" for line in body), "}"]
