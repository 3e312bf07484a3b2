"""Programs as Pallas: one kernel function per kernel, and a function that takes and returns arrays.  Pure Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from portakern.backend import Missing, Source, Target
from portakern.emit.where import where
from portakern.errors import MissingRuleError
from portakern.ir.core import Op, Result, Yield
from portakern.ir.program import Array, Program
from portakern.ir.tile import Cast, Dot, For, Kernel, TileType, tile_type

from ..planning.arguments import in_plain_arrays
from ..planning.framed import framed, frames_of
from ..planning.int64_arrays import narrowed
from ..planning.joined_rows import with_joined_rows
from ..planning.kernel_plan import PallasKernelPlan, PallasProgramPlan, plan_kernel
from ..planning.loops import ReportMissing
from ..planning.picks import reference
from ..planning.pieces import in_pieces
from ..planning.split_dims import with_split_dims
from ..planning.turns import in_turns
from ..planning.whole_lines import with_whole_lines
from ..planning.words import WORDS
from ..syntax import operations
from ..syntax.line_breaks import wrap
from .body import BodyWriter
from .host import entry_lines, reference_names
from .names import read_names
from .regions import KernelBody, Line
from .typical import typical

SCHEDULES = "schedules"
"""The option of a source that says which kernel of it has which schedule."""

_SCALARS_BESIDES = 4096
"""Bytes of scalar memory that libtpu 0.0.52 needs itself: 1.7 KB on v4, v5e, v5p and v6e, 2.4 KB on tpu7x."""


MODULES = frozenset({"jax", "jnp", "np", "pl", "pltpu", "functools"})
"""What the text calls the modules that it imports."""


def entry_of(program: Program) -> str:
    """The host function's name: the operator's, unless that means something else in the text."""
    return f"run_{program.name}" if program.name in MODULES or program.name in operations.HELPERS else program.name


class PallasEmitter:
    """Tile programs to plain Pallas that runs unchanged on a TPU host."""

    def __init__(self) -> None:
        self._last: tuple[Program, Target, _Writer] | None = None

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        return self._writer(program, target).problems

    def _writer(self, program: Program, target: Target) -> _Writer:
        """What was found of the same program a moment ago: it is asked what is missing before it is emitted."""
        if self._last is None or self._last[0] is not program or self._last[1] != target:
            self._last = program, target, _Writer(program, target)
        return self._last[2]

    def plan(self, program: Program, target: Target) -> PallasProgramPlan:
        writer = self._checked(program, target)
        return PallasProgramPlan(tuple(plan for plan, _ in writer.kernels.values()))

    def emit(self, program: Program, target: Target) -> Source:
        """Raises :class:`MissingRuleError` listing everything that cannot be said."""
        writer = self._checked(program, target)
        lines = writer.text()
        origins = tuple((n, where) for n, (_, where) in enumerate(lines, 1) if where)
        return Source(
            target, program.name, entry_of(program), "\n".join(text for text, _ in lines) + "\n", ".py", program.arrays,
            program.sizes, schedule=tuple(k.schedule for k in program.kernels),
            options=(("origins", origins), ("typical", writer.typical()), (SCHEDULES, writer.schedules()),
                     *([(WORDS, writer.words)] if writer.words else [])),
        )  # fmt: skip

    def _checked(self, program: Program, target: Target) -> _Writer:
        writer = self._writer(program, target)
        if writer.problems:
            raise MissingRuleError(f"{program.name} cannot be written for {target}",
                                   missing=tuple(_line(m) for m in writer.problems))
        return writer

    def standalone(self, source: Source) -> str:
        return source.text


def _line(m: Missing) -> str:
    return f"{m.where + ': ' if m.where else ''}{m.what}{'; instead: ' + m.alternative if m.alternative else ''}"


class _Writer:
    """One pass over a program that plans, writes, and notes what is missing on the way."""

    def __init__(self, program: Program, target: Target) -> None:
        self.name = program.name
        given, program = program, in_plain_arrays(replace(program, name=entry_of(program)), {*MODULES, *operations.HELPERS})
        self.narrow = narrowed(program)
        self.words = tuple(a.name for a, b in zip(given.arrays, program.arrays, strict=True) if b.name in self.narrow.words)
        turned, self.scans = in_turns(self.narrow.program)
        turned, beside = with_whole_lines(turned)
        (self.program, assemblies), self.target = in_pieces(with_joined_rows(turned)), target
        self.assemblies = (*assemblies, *beside)
        program = self.program = replace(self.program, kernels=tuple(map(with_split_dims, self.program.kernels)))
        self.problems: list[Missing] = []
        self.at: Kernel | None = None
        self.constants: dict[str, int] = {}
        self.kernels: dict[int, tuple[PallasKernelPlan, KernelBody]] = {}
        self._check_arrays()
        for self.at in program.kernels:
            self._check_values(self.at)
        if self.problems:
            return
        written: set[str] = set()
        plans: dict[int, PallasKernelPlan] = {}
        for number, kernel in enumerate(program.kernels):
            self.at = kernel
            name = kernel.name if len({k.name for k in program.kernels}) == len(program.kernels) else f"{kernel.name}_{number}"
            name = f"{name}_step" if name == program.name and len(program.kernels) > 1 else name
            plan = plan_kernel(kernel, name, self.constants, self.report, self.assemblies)
            if self.problems:
                continue
            for access in plan.writes:
                if access.buffer in written:
                    self.report(f"the array {access.buffer}, written by two kernels", None, "")
                written.add(access.buffer)
            self._check_scalar_memory(plan)
            plans[number] = plan
        if self.problems:
            return
        lines = {a.source for plan in plans.values() for a in plan.writes if a.cut is not None}
        self.assemblies = tuple(a for a in self.assemblies if a.array.name not in lines)
        frames = frames_of(self.assemblies, plans.values(), written)
        self.assemblies = tuple(a for a in self.assemblies if a.array.name not in frames)
        for number, unframed in plans.items():
            plan = framed(unframed, frames)
            names = [*map(reference, plan.prefetched), *read_names(plan), *(f"{s}_ref" for s in plan.scalars),
                     *(f"{a.source}_ref" for a in plan.made)]
            self.kernels[number] = plan, BodyWriter(plan, names, target.device).write()
        if not self.problems:
            self.entry = entry_lines(program, self.kernels, self.report, target.device, self.narrow,
                                      self.assemblies, self.scans)

    @property
    def report(self) -> ReportMissing:
        def note(what: str, of: Op | Array | None, alternative: str) -> None:
            found = Missing(what, where(self.program, of, self.at), alternative)
            if found not in self.problems:
                self.problems.append(found)

        return note

    def _check_arrays(self) -> None:
        device = self.target.device
        for name in sorted({*self.program.sizes} & {*MODULES, *operations.HELPERS}):
            array = self.program.array_with(name)
            self.report(f"the name {name}, which the text has for something else", array, "another name")
        for array in self.program.arrays:
            if array.dtype == "i64":
                self.report(f"the dtype i64 of {array.name}: {device.name} has none, and what is computed of it is not known "
                            "to fit into 32 bits", array, "i32, or numbers that are limited first (pk.clip, torch.clamp)")
            elif array.dtype not in device.dtypes or array.dtype not in operations.JNP:
                self.report(f"the dtype {array.dtype} of {array.name}: {device.name} has none", array,
                            device.alternatives.get(array.dtype, ""))

    def _check_scalar_memory(self, plan: PallasKernelPlan) -> None:
        """A kernel whose indices have no room, at the smallest sizes of open dims."""
        counts = self._indices(plan, dict.fromkeys(self.program.sizes, 1))
        if not self._has_room(counts):
            what = " and ".join(f"the {count} indices in {name}" for name, count in counts.items())
            device = self.target.device
            self.report(f"{what}: the scalar memory of {device.name} has {device.count('smem_bytes')} bytes",
                        self.program.array(next(iter(counts))), "an operator for a part of them at a time")

    def schedules(self) -> tuple[tuple[str, str], ...]:
        """The schedule of every kernel by its name in the text."""
        return tuple((plan.name, str(plan.kernel.schedule)) for plan, _ in self.kernels.values())

    def typical(self) -> tuple[tuple[str, int], ...]:
        """The open dims with the sizes they are compiled for."""
        accesses = [a for plan, _ in self.kernels.values() for a in (*plan.passed, *plan.made)]
        return typical(self.program, accesses, self._has_indices)

    def _has_indices(self, sizes: Mapping[str, int]) -> bool:
        """Whether the indices of each kernel fit into scalar memory."""
        return all(self._has_room(self._indices(plan, sizes)) for plan, _ in self.kernels.values())

    def _indices(self, plan: PallasKernelPlan, sizes: Mapping[str, int]) -> dict[str, int]:
        """How many elements the arrays have that are prefetched to scalar memory."""
        return {name: prod(self.program.shape(name, sizes)) for name in plan.prefetched}

    def _has_room(self, counts: Mapping[str, int]) -> bool:
        room = self.target.device.count("smem_bytes", 0)
        return not room or 4 * sum(counts.values()) <= room - _SCALARS_BESIDES

    def _check_values(self, kernel: Kernel) -> None:
        known = {a.dtype for a in self.program.arrays}  # an array's own dtype has been reported already
        for op in kernel.body.walk():
            if isinstance(op, For | Result | Yield) or not isinstance(op.type, TileType):
                continue
            if op.type.dtype not in operations.JNP and op.type.dtype not in known and (op.type.dims or isinstance(op, Cast)):
                self.report(f"arithmetic in {op.type.dtype}", op, self.target.device.alternatives.get(op.type.dtype, ""))
            if isinstance(op, Dot):
                self._check_dot(op)

    def _check_dot(self, op: Dot) -> None:
        lhs, rhs = tile_type(op.lhs), tile_type(op.rhs)
        if set(lhs.axes) & set(rhs.axes) - {op.axis}:
            self.report("a product with batch dims inside a tile", op, "a batch axis with tile 1")
        if not self.target.device.matrix_for(lhs.dtype) and lhs.dtype != "f32":
            known = " or ".join(sorted({m.operands for m in self.target.device.matrix}))
            self.report(f"a product of {lhs.dtype} on {self.target.device.name}", op, f"pk.cast both operands to {known}")

    def text(self) -> list[Line]:
        device = self.target.device
        lines: list[str] = [f'"""{self.name} for TPU {device.name} in Pallas, written by portakern.', ""]
        lines += [f"Schedule{f' of {p.name}' if len(self.kernels) > 1 else ''}: {p.kernel.schedule}"
                  for p, _ in self.kernels.values()]
        lines += ['"""', ""]
        out: list[Line] = [(line, "") for line in lines]
        out += [("import functools\n", "")] if any(p.kernel.sizes for p, _ in self.kernels.values()) else []
        out += [("import jax", ""), ("import jax.numpy as jnp", "")]
        out += [("import numpy as np", "")] if self.narrow.words else []
        out += [("from jax.experimental import pallas as pl", ""),
                ("from jax.experimental.pallas import tpu as pltpu", ""), ("", "")]
        if self.constants:
            names, values = ", ".join(self.constants), ", ".join(map(str, self.constants.values()))
            out += [(f"{names} = {values}  # elements per block", ""), ("", "")]
        helpers = dict.fromkeys(h for _, body in self.kernels.values() for h in body.helpers)
        helpers |= dict.fromkeys([*(["words"] if self.narrow.words else []), *(["of_words"] if self.narrow.joined else [])])
        for helper in helpers:
            out += [("", ""), *((line, "") for line in operations.HELPERS.get(helper, helper).splitlines()), ("", "")]
        for plan, body in self.kernels.values():
            out += [("", ""), (_signature(plan, body), ""), *_notes(plan),
                    *((f"    {text}" if text else "", where) for text, where in body.lines), ("", "")]
        out += [("", ""), *self.entry]
        return [(piece, where) for text, where in _squeezed(out) for part in text.split("\n") for piece in wrap(part)]


def _signature(plan: PallasKernelPlan, body: KernelBody) -> str:
    names = reference_names(plan, body)
    sizes = plan.kernel.sizes
    return f"def {plan.name}_kernel({', '.join([*names, *(['*', *sizes] if sizes else [])])}):"


def _notes(plan: PallasKernelPlan) -> list[Line]:
    """What a reader should know before the first line of a kernel."""
    notes = []
    if plan.phase:
        walks = "; ".join(f"{n} walks {' and '.join(x.axis for x in p.loops)}" for n, p in enumerate(plan.phases))
        notes.append(f"# The grid runs in order: phase {walks}.")
    if any(s.ragged for s in plan.spans.values()):
        names = ", ".join(s.axis.name for s in plan.spans.values() if s.ragged)
        notes.append(f"# The last block along {names} reaches past the array, where it holds garbage.")
    return [(f"    {n}", "") for n in notes]


def _squeezed(lines: list[Line]) -> list[Line]:
    """``lines`` with at most two blank ones in a row, and none at the end."""
    out: list[Line] = []
    for line in lines:
        if line[0] == "" and [x[0] for x in out[-2:]] == ["", ""]:
            continue
        out.append(line)
    while out and out[-1][0] == "":
        out.pop()
    return out
