"""Tile programs as numba: the kernels as plain loops, and the host function that calls them.

The host function is called as ``entry(inputs..., scalars..., outputs...)`` with numpy arrays and writes the outputs in
place. numpy has no bf16 and numba no f16, so both come as ``uint16`` bit patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from portakern.backend import Missing, Source, Target
from portakern.dtypes import numpy_dtype
from portakern.emit.host import called, host_names, write_launches
from portakern.emit.loops.array_sums import plan_with_array_sums
from portakern.emit.loops.plan import LoopPlan
from portakern.emit.python_like import PythonWriter, call, names_in, size_expr, with_helpers
from portakern.emit.running import without_scans
from portakern.emit.where import where
from portakern.errors import MissingRuleError, UnsupportedDtype
from portakern.ir.core import Op
from portakern.ir.program import Array, Program
from portakern.ir.rewrite import canonicalise
from portakern.ir.tile import ArgReduce, BufferType, Dot, Kernel, ScanBy, TileType, Unary, tile_type

from . import words
from .axes import RESERVED
from .text import NumbaKernelText, print_kernel

MEMORY = {**words.NUMPY, "f16": "np.uint16", "bf16": "np.uint16"}
"""numpy types of arrays by dtype."""

_HELD = {"f16": "f32", "bf16": "f32"}
"""The dtype of local arrays for values of another one."""


@dataclass(frozen=True)
class NumbaEmitter:
    """Needs no numba to emit."""

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        found: dict[tuple[str, str], Missing] = {}

        def report(what: str, line: str, alternative: str = "") -> None:
            found.setdefault((what, line), Missing(what, line, alternative))

        for array in program.arrays:
            if array.dtype not in MEMORY:
                report(f"{array.dtype} arrays in numba", where(program, array),
                       target.device.alternatives.get(array.dtype, "bf16"))
        told = program.readings("input", "output")
        for name in program.sizes:
            if name not in told:
                report(f"the open dim {name}, which no array's shape tells", where(program, program.array_with(name)),
                       f"a fixed {name}, or an array with {name} as a dim")
        for kernel in program.kernels:
            for op in kernel.body.walk():
                what = _unsupported(op)
                if what:
                    report(what, where(program, op, kernel))
                if isinstance(op.type, TileType) and op.type.dtype not in MEMORY:
                    report(f"the dtype {op.type.dtype}", where(program, op, kernel),
                           target.device.alternatives.get(op.type.dtype, "bf16"))
        return tuple(found.values())

    def plan(self, program: Program, target: Target) -> LoopPlan:
        return LoopPlan(tuple(plan_with_array_sums(without_scans(canonicalise(k)), _HELD) for k in program.kernels))

    def emit(self, program: Program, target: Target) -> Source:
        missing = self.missing(program, target)
        dtypes = [m for m in missing if m.what.endswith(" arrays in numba")]
        if dtypes:
            raise UnsupportedDtype(f"{program.name}: {dtypes[0].what} are not possible", f"use {dtypes[0].alternative}")
        if missing:
            raise MissingRuleError(f"{program.name} for {target}: numba's emitter has no rule for",
                                   missing=tuple(f"{m.what} ({m.where})" if m.where else m.what for m in missing))  # fmt: skip
        kernels = [print_kernel(k) for k in self.plan(program, target).kernels]
        body = "\n\n".join(k.text for k in kernels)
        helpers = "\n".join(words.HELPERS[name] for name in with_helpers(body, words.HELPERS))
        host = _host_function(program, kernels)
        head = f'"""{program.name} for {target}, written by portakern."""\n\n{_imports(helpers + body)}'
        parts = [p.strip("\n") for p in (head, helpers, body, host) if p.strip()]
        text = "\n\n\n".join(parts) + "\n"
        return Source(target, program.name, entry_of(program), text, ".py", program.arrays, program.sizes,
                      schedule=tuple(k.schedule for k in program.kernels))  # fmt: skip

    def standalone(self, source: Source) -> str:
        """The text is whole already."""
        return source.text


def _imports(text: str) -> str:
    names, lines = names_in(text), []
    if "math" in names:
        lines.append("import math\n")
    lines.append("import numpy as np")
    if "intrinsic" in names:
        lines.append("from llvmlite import ir")
    lines.append(f"from numba import njit{', prange' if 'prange' in names else ''}")
    if "intrinsic" in names:
        lines.append("from numba.extending import intrinsic")
    lines += ["", "f32 = np.float32"]
    return "\n".join(lines)


def _unsupported(op: Op) -> str:
    match op:
        case ArgReduce(fn=fn):
            return f"arg{fn}"
        case ScanBy(axis=axis):
            return f"a scan of a tile by a function of the operator's (tile {axis} by 1)"
        case Unary(fn=fn) if fn not in words.UNARY:
            return fn
        case Dot(acc=acc) if len(tile_type(acc).dims) != 2:
            return f"a contraction giving {acc.type}; numba's contracts tiles of two dims"
    return ""


def entry_of(program: Program) -> str:
    """The host function's name: the operator's, unless that means something else in the text."""
    return f"run_{program.name}" if program.name in RESERVED else program.name


def _host_function(original: Program, kernels: Sequence[NumbaKernelText]) -> str:
    names = host_names(original, {*RESERVED, entry_of(original), *(k.name for k in kernels)})
    program = called(original, names)
    out = PythonWriter(width=116)
    given = program.by_role("input", "scalar", "output")
    with out.block(f"def {entry_of(program)}({', '.join(a.name for a in given)}):"):
        out.line(f'"""{_signature(program)}"""')
        for size, reading in program.readings("input", "output").items():
            out.line(f"{size} = {reading}")
        for array in program.by_role("temporary"):
            out.line(f"{array.name} = {_allocation(array)}")
        for array in program.by_role("output"):
            if array.init is not None:
                out.line(f"{array.name}[...] = {_initial(array)}")
        write_launches(out, original, names, lambda n: out.line(
            call(kernels[n].name, *_arguments(original, program.kernels[n], names)).text))
    return str(out)


def _arguments(program: Program, kernel: Kernel, names: Mapping[str, str]) -> list[str]:
    """Arrays as the kernel sees them (reshaped where it views them differently), then open dims, by their ``names`` here.

    Those without dims come as arrays of one element: loops on several cores take a number for such an array.
    """
    made = []
    for arg in kernel.args:
        mine, theirs = arg.type, program.array(arg.name).type
        if isinstance(mine, BufferType) and isinstance(theirs, BufferType) and not (mine.shape and mine.shape == theirs.shape):
            shape = ", ".join(size_expr(s, names).text for s in mine.shape)
            made.append(f"{names[arg.name]}.reshape({shape or '1'})")
        else:
            made.append(names[arg.name])
    return [*made, *(names[s] for s in kernel.sizes)]


def _signature(program: Program) -> str:
    """``x[M, 1000] bf16, b[1000] bf16 -> y[M, 1000] bf16``."""

    def said(array: Array) -> str:
        shape = f"[{', '.join(map(str, array.type.shape))}]" if isinstance(array.type, BufferType) else ""
        return f"{array.name}{shape} {array.dtype}"

    inputs = ", ".join(map(said, program.by_role("input", "scalar")))
    return f"{inputs} -> {', '.join(map(said, program.by_role('output')))}"


def _allocation(array: Array) -> str:
    assert isinstance(array.type, BufferType)
    shape = ", ".join(map(str, array.type.shape))
    shape = f"({shape},)" if len(array.type.shape) == 1 else f"({shape})"
    if array.init is None:
        return f"np.empty({shape}, {MEMORY[array.dtype]})"
    return f"np.full({shape}, {_initial(array)}, {MEMORY[array.dtype]})"


def _initial(array: Array) -> str:
    """A fill value: the bits of it for what memory holds as bits, as 16-bit floats are."""
    assert array.init is not None
    if array.dtype in words.HALF_FLOATS:
        bits = np.asarray(array.init).astype(numpy_dtype(array.dtype)).view(np.uint16)
        return hex(int(bits)) if bits else "0"
    text = repr(array.init)
    return {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(text, text)
