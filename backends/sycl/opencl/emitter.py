"""The OpenCL C emitter."""

from __future__ import annotations

import re
from collections.abc import Sequence

from portakern.backend import Launch, Missing, Source, Target
from portakern.errors import MissingRuleError
from portakern.ir.program import Program
from portakern.ir.size import Size, product
from portakern.ir.tile import ArgReduce, Binary, Dot, Kernel, Load, Op, Scan, Store, TileType, buffer_type, tile_type

from ..loops.forming import form
from ..loops.plan import LoopPlan
from ..loops.printer import print_kernel
from ..loops.spelling import SUPPORTED
from .helpers import Helpers

_FAMILY = {"sum", "max", "min", "prod", "any", "all"}


class OpenCLEmitter:
    """Prints programs as OpenCL C 1.2 (no extension is needed) for CPU devices."""

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        found: dict[tuple[str, str], Missing] = {}

        def note(what: str, where: object = "", alternative: str = "") -> None:
            found.setdefault((what, str(where or "")), Missing(what, str(where or ""), alternative))

        device = target.device
        for array in program.arrays:
            if array.dtype not in SUPPORTED or array.dtype not in device.dtypes:
                note(f"{array.dtype} arrays ({array.name})", "", device.alternatives.get(array.dtype, ""))
        for kernel in program.kernels:
            for op in kernel.body.walk():
                for what, alternative in _lacks(op):
                    note(what, op.loc, alternative)
        return tuple(found.values())

    def plan(self, program: Program, target: Target) -> LoopPlan:
        lanes = target.device.count("vector_bytes", 64) // 4
        return LoopPlan(tuple(form(k, lanes) for k in program.kernels))

    def emit(self, program: Program, target: Target) -> Source:
        lacks = self.missing(program, target)
        if lacks:
            raise MissingRuleError(f"{program.name} cannot be emitted for {target}", missing=tuple(
                f"{m.where + ': ' if m.where else ''}{m.what}{f' (use {m.alternative})' if m.alternative else ''}" for m in lacks))
        helpers = Helpers()
        plan = self.plan(program, target)
        kernels = [print_kernel(k, helpers) for k in plan.kernels]
        launches = tuple(launch(k) for k in program.kernels)
        parts = [_header(program, target)]
        if helpers.texts:
            parts.append(str(helpers))
        for text, run in zip(kernels, launches, strict=True):
            parts.append(f"{launch_line(run)}\n{text}")
        return Source(
            target=target, operator=program.name, entry=launches[0].kernel if launches else program.name,
            text="\n\n".join(parts) + "\n", suffix=".cl", arrays=program.arrays, sizes=program.sizes, launches=launches,
            schedule=tuple(k.schedule for k in program.kernels),
        )  # fmt: skip

    def standalone(self, source: Source) -> str:
        return source.text


def _lacks(op: Op) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if isinstance(op, Scan | ArgReduce):
        found.append((f"{op.mnemonic()} in OpenCL C", ""))
    if isinstance(op, Load) and op.gathers:
        found.append(("gathered loads in OpenCL C", ""))
    if isinstance(op, Binary) and op.fn == "pow" and tile_type(op).dtype not in ("f32", "f64"):
        found.append(("integer powers in OpenCL C", "cast to f32"))
    if isinstance(op, Store) and op.mode != "set" and buffer_type(op.buffer).dtype not in ("f32", "i32"):
        found.append((f"atomic {op.mode} on {buffer_type(op.buffer).dtype} in OpenCL C", "f32 or i32"))
    if isinstance(op, Dot) and op.precision not in ("ieee", "tf32"):
        found.append((f"products with precision {op.precision} in OpenCL C", "ieee"))
    if isinstance(op.type, TileType) and op.type.dtype not in SUPPORTED:
        found.append((f"{op.type.dtype} values in OpenCL C", "f32"))
    return found


def launch(kernel: Kernel) -> Launch:
    """The grid: the fastest axis first, every axis beyond the second in the third dimension."""
    steps: list[Size] = [a.steps for a in reversed(kernel.grid)]
    x, y, z = (*steps[:2], *[1] * (2 - len(steps[:2])), product(tuple(steps[2:])))
    return Launch(kernel.name, (x, y, z), (1, 1, 1), (*(a.name for a in kernel.args), *kernel.sizes))


def launch_line(run: Launch) -> str:
    """The comment that says how a kernel is launched, read back by :func:`read_launches`."""
    grid = ", ".join(map(str, run.grid))
    block = ", ".join(map(str, run.block))
    return (f"// portakern launch: kernel={run.kernel} grid=({grid}) block=({block}) shared={run.shared_bytes} "
            f"args=({', '.join(run.args)})")


def _header(program: Program, target: Target) -> str:
    arrays = "\n".join(f"//   {a.role} {a.name}: {re.sub(r'^buffer|^tile', '', str(a.type))}" for a in program.arrays)
    return (f"// {program.name} for {target}, OpenCL C 1.2: one work-item per work-group.\n{arrays}")
