"""The plan of a kernel: its grid, its blocks, its phases and what stays in scratch, decided before any text.

The grid is: every parallel axis that has more than one block, then (with several loops in a row) the phase, then the
loops.  A buffer that a phase does not touch keeps its block index there, so that nothing is copied for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from portakern.emit.running import with_last_values_picked, without_scans
from portakern.emit.softmax import by_powers_of_two
from portakern.errors import IRError
from portakern.ir.core import Arg, Op
from portakern.ir.size import Size
from portakern.ir.tile import (
    Axis,
    For,
    Index,
    Kernel,
    Load,
    Store,
    TileType,
    tile_type,
)

from ..syntax.expressions import ALL_LANES, BlockAxes
from .blocks import LANES, BlockAccess, Cut, Span, access_of, block_size, tuple_text
from .causality import causal_axes
from .filled_parts import filled_parts
from .joined_rows import following
from .layout import LayoutAssignment
from .lines import cuts_of
from .loops import Phase, ReportMissing, carried_through, phases_of, straighten
from .picks import loads_of_indices, picked_text
from .pieces import Assembly
from .row_groups import RowGroup, row_group_of
from .stored_taps import with_taps_one_by_one
from .taps import TapLoop, with_taps
from .windows import is_windowed, window_access


@dataclass(frozen=True)
class GridDim:
    """One dim of the grid: its index's name in the kernel, its number of steps (text), what it is, whose steps it takes."""

    name: str
    steps: str
    kind: str  # parallel, repeated, phase or loop
    axes: tuple[str, ...] = ()

    @property
    def semantics(self) -> str:
        return "parallel" if self.kind == "parallel" else "arbitrary"


@dataclass(frozen=True)
class ScratchBuffer:
    """A scratch buffer in VMEM that outlives a grid step: its place, dtype, and what it is for."""

    name: str
    place: BlockAxes
    dtype: str
    why: str


@dataclass(frozen=True)
class PallasKernelPlan:
    """Everything the printer of one kernel needs; ``str`` shows it."""

    kernel: Kernel  # straightened
    name: str
    spans: Mapping[str, Span]
    grid: tuple[GridDim, ...]
    phases: tuple[Phase, ...]
    reads: tuple[BlockAccess, ...]
    writes: tuple[BlockAccess, ...]
    scalars: tuple[str, ...]  # arguments that are single values given at run time
    slots: Mapping[tuple[For, int], ScratchBuffer]
    layout: LayoutAssignment = field(repr=False)
    causal: tuple[tuple[str, str], ...] = ()  # see :func:`.causality.causal_axes`
    prefetched: tuple[str, ...] = ()  # arrays of indices in scalar memory, which index maps read

    def dim_of_loop(self, depth: int) -> GridDim | None:
        loops = [d for d in self.grid if d.kind == "loop"]
        return loops[depth] if depth < len(loops) else None

    @property
    def phase(self) -> GridDim | None:
        return next((d for d in self.grid if d.kind == "phase"), None)

    @property
    def passed(self) -> tuple[BlockAccess, ...]:
        """Of ``reads``, the first of each reference."""
        return tuple({r.passed: r for r in reversed(self.reads)}[k] for k in dict.fromkeys(r.passed for r in self.reads))

    @property
    def made(self) -> tuple[BlockAccess, ...]:
        """Of ``writes``, the first of each array."""
        return tuple({w.source: w for w in reversed(self.writes)}[k] for k in dict.fromkeys(w.source for w in self.writes))

    @property
    def accesses(self) -> tuple[BlockAccess, ...]:
        return (*self.reads, *self.writes)

    def read_number(self, op: Load) -> int:
        """Which of ``reads`` serves a load.  Raises :class:`IRError` where none was planned for it."""
        assert isinstance(op.buffer, Arg)
        wanted = op.buffer.name, op.indices, frozenset(a for a, _ in op.dims), op.gathers
        for n, r in enumerate(self.reads):
            if _key(r) == wanted:
                return n
        at, planned = ", ".join(map(str, op.indices)), "; ".join(str(_key(r)) for r in self.reads)
        raise IRError(f"no block of {op.buffer.name} at [{at}] is planned in {self.name}; planned are {planned}",
                      where=str(op.loc or ""))  # fmt: skip

    def sizes(self, place: BlockAxes, spans: Mapping[str, Span] | None = None) -> str:
        """The shape of a block at ``place`` as source text; ``spans`` are those of a part of it."""
        have = spans or self.spans
        return tuple_text(tuple(str(LANES) if a == ALL_LANES else have[a].text if a else "1" for a in place))

    def __str__(self) -> str:
        lines = [f"kernel {self.name}", "  grid"]
        lines += [f"    {d.name}: {d.steps} steps, {d.semantics} ({d.kind} {' '.join(d.axes)})".replace(" )", ")")
                  for d in self.grid] or ["    one step"]
        lines.append("  blocks in VMEM, two buffers each")
        for a in self.accesses:
            way = "written" if a.write else "read"
            entries = ", ".join(str(e) if e != Index() else "0" for e in a.entries)
            part = f", of lines {a.cut.index}" if a.cut is not None else ""
            lines.append(f"    {a.buffer} [{', '.join(str(b) for b in a.block)}] {a.dtype} at ({entries}), {way}{part}")
        if self.slots:
            lines.append("  scratch in VMEM")
            lines += [f"    {s.name} {self.sizes(s.place)} {s.dtype}: {s.why}" for s in dict.fromkeys(self.slots.values())]
        return "\n".join(lines)


@dataclass(frozen=True)
class PallasProgramPlan:
    """The plans of a program's kernels in launch order."""

    kernels: tuple[PallasKernelPlan, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.kernels)) + "\n"


def plan_kernel(kernel: Kernel, name: str, constants: dict[str, int], report: ReportMissing,
                assemblies: Sequence[Assembly] = ()) -> PallasKernelPlan:  # fmt: skip
    """Decide everything about ``kernel``.  ``constants`` collects the named block sizes of the source; ``assemblies`` are
    arrays that it may store pieces of."""
    causal = causal_axes(kernel)
    kernel = with_taps(with_taps_one_by_one(by_powers_of_two(straighten(with_last_values_picked(without_scans(kernel))))))
    phases = phases_of(kernel.body, report)
    spans = {a.name: _span(a, constants) for a in kernel.axes}
    layout = LayoutAssignment(kernel)
    group = row_group_of(kernel, spans, layout)
    if group is not None:
        spans[group.outer.axis.name] = group.outer
    grid, spans = _grid(kernel, phases, spans)
    cuts = cuts_of(kernel, spans, assemblies) if group is None else {}
    accesses: dict[Any, BlockAccess] = {}
    prefetched, indices = loads_of_indices(kernel)
    for number, phase in enumerate(phases):
        for op in _walk(phase):
            if isinstance(op, Load | Store) and op not in indices:
                _note(kernel, op, number, spans, accesses, group, report, cuts.get(op))
                _check_picks(op, spans, report)
    if group is not None:
        spans[group.inner.axis.name] = group.together
    slots = _slots(kernel, phases, layout)
    _check_bounds(phases, spans, report)
    found = tuple(accesses.values())
    writes = tuple(a for a in found if a.write)
    if len({a.buffer for a in writes}) != len(writes):
        report("an output stored at two places", None, "")
    # Pallas passes the references in the order of the kernel's arguments.
    position = {a.name: n for n, a in enumerate(kernel.args)}
    return PallasKernelPlan(kernel, name, spans, grid, phases,
                      tuple(sorted((a for a in found if not a.write), key=lambda a: position[a.buffer])),
                      tuple(sorted(writes, key=lambda a: position[a.buffer])),
                      tuple(a.name for a in kernel.args if isinstance(a.type, TileType)), slots, layout, causal, prefetched)


def _span(axis: Axis, constants: dict[str, int]) -> Span:
    size = block_size(axis)
    if size == axis.extent or size == 1:
        return Span(axis, size, str(size), None)
    name, n = f"B{axis.name.upper()}", 1
    while constants.setdefault(name, size) != size:
        n += 1
        name = f"B{axis.name.upper()}_{n}"
    return Span(axis, size, name, None)


def _grid(kernel: Kernel, phases: Sequence[Phase], spans: dict[str, Span]) -> tuple[tuple[GridDim, ...], dict[str, Span]]:
    grid: list[GridDim] = []
    followed, filled = following(kernel), filled_parts(kernel)
    written = [{a for i in op.indices for a in i.axes} for p in phases for op in _walk(p) if isinstance(op, Store)]
    for a in kernel.grid:
        if a.name in followed:
            continue  # its blocks are counted by the dim of another axis
        steps = filled.get(a.name, _steps_text(spans[a.name]))
        if steps != "1" or a.extent == 0:
            axes = a.name, *(x for x, y in followed.items() if y == a.name)
            # Steps that store one block again must not be shared by cores.
            kind = "parallel" if all(x.intersection(axes) for x in written) else "repeated"
            grid.append(GridDim(f"i_{a.name}", steps, kind, axes))
    if len(phases) > 1:
        grid.append(GridDim("phase", str(len(phases)), "phase"))
    for depth in range(max((len(p.loops) for p in phases), default=0)):
        axes = tuple(dict.fromkeys(p.loops[depth].axis for p in phases if len(p.loops) > depth))
        texts = tuple(dict.fromkeys(_steps_text(spans[a]) for a in axes))
        grid.append(GridDim(f"i_{axes[0]}" if len(axes) == 1 else f"step_{depth}",
                            texts[0] if len(texts) == 1 else f"max({', '.join(texts)})", "loop", axes))
    return tuple(grid), {n: replace(s, dim=next((d.name for d in grid if n in d.axes), None)) for n, s in spans.items()}


def _steps_text(span: Span) -> str:
    axis = span.axis
    if isinstance(axis.extent, int):
        return str(max(-(-axis.extent // span.size), 1))
    steps = f"pl.cdiv({axis.extent}, {span.text})" if span.size > 1 else str(axis.extent)
    # A loop over nothing still takes the step that starts and finishes it.
    return f"max({steps}, 1)" if axis.kind == "loop" else steps


def _walk(phase: Phase) -> list[Op]:
    ops = [op for part in (*phase.before, phase.inside, *(x.body.ops for x in phase.then), *phase.after) for op in part]
    return [inner for op in ops for inner in (op, *(op.body.walk() if isinstance(op, TapLoop) else ()))]


def _key(access: BlockAccess) -> tuple[str, tuple[Index, ...], frozenset[str], tuple[Op, ...]]:
    return access.buffer, access.indices, frozenset(a for a in access.place if a), access.gathers


def _note(kernel: Kernel, op: Load | Store, phase: int, spans: Mapping[str, Span], accesses: dict[Any, BlockAccess],
          group: RowGroup | None, report: ReportMissing, cut: Cut | None) -> None:
    """Record the blocks of ``op``; loads of the same blocks share one reference."""
    outer = group.outer.axis.name if group is not None else ""
    grouped = any(outer in i.axes for i in op.indices)
    if isinstance(op, Load) and (grouped or is_windowed(kernel, op)):
        found = window_access(kernel, op, spans, report, outer)
    else:
        found = access_of(kernel, op, spans, report, outer, cut)
    if found is None:
        return
    key = (found.write, _key(found))
    old = accesses.get(key)
    phases = (*(old.phases if old else ()), phase)
    accesses[key] = replace(found, phases=tuple(dict.fromkeys(phases)))


def _slots(kernel: Kernel, phases: Sequence[Phase], layout: LayoutAssignment) -> dict[tuple[For, int], ScratchBuffer]:
    """Scratch for what every loop carries, shared by an inner loop that carries on for an outer one."""
    slots: dict[tuple[For, int], ScratchBuffer] = {}
    taken: set[str] = {a.name for a in kernel.args}
    for phase in phases:
        for depth, loop in enumerate(phase.loops):
            shared = carried_through(phase.loops[depth - 1], loop) if depth else {}
            for position, arg in enumerate(loop.body.args):
                if position in shared:
                    slots[loop, position] = slots[phase.loops[depth - 1], shared[position]]
                    continue
                assert isinstance(arg, Arg)
                name, n = arg.name, 1
                while name in taken:
                    n += 1
                    name = f"{arg.name}_{n}"
                taken.add(name)
                dtype = tile_type(arg).dtype
                slots[loop, position] = ScratchBuffer(f"{name}_ref", kept_at(layout.place(arg), dtype), dtype,
                                             f"carried over {loop.axis}")
        slots.update({(x, n): slots[phase.loops[-1], n] for x in phase.then for n in range(len(x.init))})
    return slots


def kept_at(place: BlockAxes, dtype: str) -> BlockAxes:
    """Where scratch holds a value that belongs at ``place``: a column over all lanes."""
    return (place[0], ALL_LANES) if place[0] and place[1] is None and dtype in ("f32", "i32") else place


def _check_picks(op: Load | Store, spans: Mapping[str, Span], report: ReportMissing) -> None:
    for g in op.gathers if isinstance(op, Load) else ():
        if not tile_type(g).dims and picked_text(g, spans) is None:
            report("indices that are no array, nor one plus or times a few integers", g, "give them as an array")


def _check_bounds(phases: Sequence[Phase], spans: Mapping[str, Span], report: ReportMissing) -> None:
    for phase in phases:
        for loop in phase.every:
            for bound in (loop.lo, loop.hi):
                if bound is not None and picked_text(bound, spans) is None:
                    report("a loop bound that is no array of integers, nor made of one", bound, "give the bounds as an array")


__all__ = ["GridDim", "PallasKernelPlan", "PallasProgramPlan", "ScratchBuffer", "Size", "plan_kernel"]
