"""What emitters of loops share: missing rules, the plan of a program, launches."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from portakern.backend import Launch, Missing, Target
from portakern.emit.half_bits import with_half_bits
from portakern.emit.loops.plan import LoopPlan
from portakern.emit.loops.planner import plan_kernel_loops
from portakern.emit.running import without_scans
from portakern.emit.where import where
from portakern.errors import MissingRuleError, ScheduleError
from portakern.ir.core import Op
from portakern.ir.program import Program
from portakern.ir.size import Size, product
from portakern.ir.tile import ArgReduce, Binary, Dot, Kernel, ScanBy, Store, TileType, buffer_type, tile_type

from .spelling import REGISTER, SUPPORTED


def lacks(program: Program, target: Target) -> Sequence[Missing]:
    """Everything in ``program`` that loops have no rule for."""
    found: dict[tuple[str, str], Missing] = {}

    def note(what: str, line: str, alternative: str) -> None:
        found.setdefault((what, line), Missing(what, line, alternative))

    device = target.device
    for array in program.arrays:
        if array.dtype not in SUPPORTED or array.dtype not in device.dtypes:
            note(f"{array.dtype} arrays ({array.name})", where(program, array), device.alternatives.get(array.dtype, ""))
    for kernel in program.kernels:
        for op in kernel.body.walk():
            for what, alternative in _lacks(op):
                note(f"{what} in {target.language}", where(program, op, kernel), alternative)
    return tuple(found.values())


def _lacks(op: Op) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if isinstance(op, ArgReduce):
        found.append((op.mnemonic(), ""))
    if isinstance(op, ScanBy):
        found.append(("a scan of a tile by a function of the operator's", f"tile {op.axis} by 1"))
    if isinstance(op, Binary) and op.fn == "pow" and tile_type(op).dtype not in ("f32", "f64"):
        found.append(("integer powers", "cast to f32"))
    if isinstance(op, Store) and op.mode != "set" and buffer_type(op.buffer).dtype not in ("f32", "i32"):
        found.append((f"atomic {op.mode} on {buffer_type(op.buffer).dtype}", "f32 or i32"))
    if isinstance(op, Dot) and op.precision not in ("ieee", "tf32"):
        found.append((f"products with precision {op.precision}", "ieee"))
    if isinstance(op.type, TileType) and op.type.dtype not in SUPPORTED:
        found.append((f"{op.type.dtype} values", "f32"))
    return found


def refuse(program: Program, target: Target, missing: Sequence[Missing]) -> None:
    """Raises :class:`MissingRuleError` that lists what is missing, if anything is."""
    lines = []
    for m in missing:
        place = f"{m.where}: " if m.where else ""
        lines.append(f"{place}{m.what}{f' (use {m.alternative})' if m.alternative else ''}")
    if lines:
        raise MissingRuleError(f"{program.name} cannot be emitted for {target}", missing=tuple(lines))


def plan_loops(program: Program, target: Target, paired: Collection[str] = ()) -> LoopPlan:
    """``paired`` are the dtypes whose products are taken two at a time.

    Raises :class:`ScheduleError` where a work-group has no room for what a kernel keeps."""
    lanes = target.device.count("vector_bytes", 64) // 4
    made = LoopPlan(tuple(plan_kernel_loops(with_half_bits(without_scans(k)), REGISTER, lanes, paired=paired, turns=True)
                          for k in program.kernels))
    room = target.device.count("shared_bytes_per_block", 0)
    for kernel, plan in zip(program.kernels, made.kernels, strict=True):
        if room and plan.local_bytes > room:
            raise ScheduleError(f"{kernel.name} takes {plan.local_bytes} bytes of local memory with {kernel.schedule}, "
                                f"a work-group on {target.device.name} has {room}", hint="take smaller tiles",
                                where=where(program, kernel), schedule=str(kernel.schedule))  # fmt: skip
    return made


def launch(kernel: Kernel) -> Launch:
    """The grid: the fastest axis first, every axis beyond the second in the third dimension."""
    steps: list[Size] = [a.steps for a in reversed(kernel.grid)]
    x, y = (*steps, 1, 1)[:2]
    return Launch(kernel.name, (x, y, product(tuple(steps[2:]))), (1, 1, 1), (*(a.name for a in kernel.args), *kernel.sizes))


def launch_line(run: Launch) -> str:
    """The comment that says how a kernel is launched (see :mod:`portakern.emit.launches`)."""
    grid = ", ".join(map(str, run.grid))
    block = ", ".join(map(str, run.block))
    return (f"// portakern launch: kernel={run.kernel} grid=({grid}) block=({block}) shared={run.shared_bytes} "
            f"args=({', '.join(run.args)})")
