"""Tile programs as plain C11: a function per kernel that does one block, and an entry function that walks the grid."""

from __future__ import annotations

from collections.abc import Sequence

from portakern.backend import Missing, Source, Target
from portakern.errors import MissingRuleError, UsageError
from portakern.ir.core import Op
from portakern.ir.program import Array, Nested, Program, nested
from portakern.ir.size import Size, product
from portakern.ir.tile import (
    ArgReduce,
    Binary,
    Bitcast,
    BufferType,
    Dot,
    Kernel,
    Load,
    Scan,
    ScanBy,
    TileType,
    Unary,
    tile_type,
)
from portakern_c import rules
from portakern_c.kernel import KernelText, number


class CEmitter:
    """Needs no compiler."""

    def missing(self, program: Program, target: Target) -> Sequence[Missing]:
        """Everything that has no rule: dtypes, functions, gathers, scans."""
        found: dict[tuple[str, str], Missing] = {}
        for array in program.arrays:
            if array.dtype not in rules.TYPES:
                instead = target.device.alternatives.get(array.dtype, "")
                found[array.dtype, ""] = Missing(f"{array.dtype} arrays", "", f"use {instead}" if instead else "")
        for kernel in program.kernels:
            for op in kernel.body.walk():
                if what := unsupported(op):
                    found[what, str(op.loc or "")] = Missing(what, str(op.loc or ""))
        return tuple(found.values())

    def plan(self, program: Program, target: Target) -> None:
        """Loops follow the tiles; there is nothing to decide before printing."""

    def emit(self, program: Program, target: Target) -> Source:
        if missing := self.missing(program, target):
            raise MissingRuleError(f"c has no rule for {program.name}", missing=tuple(m.what for m in missing))
        body = "\n".join([*(KernelText(k).text() for k in program.kernels), entry_function(program)])
        helpers = "".join(f"{text}\n" for name, text in rules.HELPERS.items() if name in body)
        text = (f"// {program.name} for {target}, written by portakern.\n{includes(helpers + body)}\n{helpers}{body}")
        return Source(target, program.name, program.name, text, ".c", program.arrays, program.sizes,
                      schedule=tuple(k.schedule for k in program.kernels))

    def standalone(self, source: Source) -> str:
        """The text includes nothing but the standard library."""
        return source.text


def unsupported(op: Op) -> str:
    """What there is no rule for, or ''."""
    match op:
        case Scan(fn=fn):
            return f"scan {fn}"
        case ScanBy():
            return "a scan by a function of the operator's"
        case ArgReduce(fn=fn):
            return f"arg{fn}"
        case Bitcast():
            return "bitcast"
        case Load(gathers=gathers) if gathers:
            return "gathered loads"
        case Dot(precision=precision) if precision not in ("ieee", "tf32"):  # more exact than asked is right
            return f"{precision} products"
        case Unary(fn=fn) if fn not in unary_rules(tile_type(op.x).dtype):
            return f"{fn} of {tile_type(op.x).dtype}"
        case Binary(fn=fn) if fn not in binary_rules(tile_type(op.lhs).dtype):
            return f"{fn} of {tile_type(op.lhs).dtype}"
    if isinstance(op.type, TileType) and op.type.dtype not in rules.TYPES:
        return f"{op.type.dtype} values"
    return ""


def unary_rules(dtype: str) -> dict[str, str]:
    if dtype == "bool":
        return {"not": "!{x}"}
    return rules.UNARY if dtype in ("f32", "f64") else rules.INTEGER_UNARY


def binary_rules(dtype: str) -> dict[str, str]:
    if dtype == "bool":
        return rules.BOOL_BINARY
    return rules.BINARY if dtype in ("f32", "f64") else rules.INTEGER_BINARY


def includes(text: str) -> str:
    needs = {"stdbool.h": "bool", "stdint.h": "int", "string.h": "memcpy", "stdlib.h": "malloc", "math.h": ""}
    return "".join(f"#include <{header}>\n" for header, word in sorted(needs.items()) if word in text)


# ---- the entry function ------------------------------------------------------------------------------------------------


def entry_function(program: Program) -> str:
    """Allocates temporaries, fills what starts from a value, and runs each kernel over its grid."""
    lines = [f"void {program.name}({parameters(program)}) {{"]
    temporaries = program.by_role("temporary")
    for a in temporaries:
        c_type = rules.TYPES[a.dtype]
        lines.append(f"    {c_type}* {a.name} = malloc(sizeof({c_type}) * ({count(a)} + 1));")
    for a in program.arrays:
        if a.init is not None:
            lines.append(f"    for (int64_t i = 0; i < {count(a)}; ++i) {a.name}[i] = {number(a.init, a.dtype)};")
    lines += in_order(program, nested(len(program.kernels), program.repeats))
    lines += [f"    free({a.name});" for a in temporaries]
    return "\n".join([*lines, "}", ""])


def in_order(program: Program, plan: Sequence[int | Nested]) -> list[str]:
    """Every kernel, in loops where they are repeated; after a turn the arrays that change places do so by their pointers."""
    lines: list[str] = []
    for item in plan:
        if isinstance(item, int):
            lines += launch(program.kernels[item])
            continue
        r = item.repeat
        lines.append(f"    for (int64_t {r.step} = 0; {r.step} < {size_text(r.count)}; ++{r.step}) {{")
        lines += in_order(program, item.inside)
        lines += [f"    {{ void* first = {a}; {a} = {b}; {b} = first; }}" for a, b in r.swaps]
        lines.append("    }")
    return lines


def parameters(program: Program) -> str:
    """Pointers in program order without temporaries, then scalars, then open dims."""
    pointers = [f"{'const ' if a.role == 'input' else ''}{rules.TYPES[a.dtype]}* {a.name}"
                for a in program.by_role("input", "output")]
    scalars = [f"{rules.TYPES[a.dtype]} {a.name}" for a in program.by_role("scalar")]
    return ", ".join([*pointers, *scalars, *(f"int64_t {name}" for name in program.sizes)]) or "void"


def launch(kernel: Kernel) -> list[str]:
    """One loop per grid axis around a call of the kernel's block."""
    lines, depth = [], 1
    for axis in kernel.grid:
        start = f"first_{axis.name}"
        lines.append("    " * depth + f"for (int64_t {start} = 0; {start} < {size_text(axis.extent)}; {start} += {axis.tile})")
        depth += 1
    arguments = [f"first_{a.name}" for a in kernel.grid] + [a.name for a in kernel.args] + list(kernel.sizes)
    return [*lines, "    " * depth + f"{kernel.name}_block({', '.join(arguments)});"]


def count(array: Array) -> str:
    assert isinstance(array.type, BufferType)
    return f"({size_text(product(array.type.shape))})"


def size_text(size: Size) -> str:
    """A size in C, where the division of what is not negative is ``/``."""
    return str(size).replace("//", "/")


# ---- foreign texts ------------------------------------------------------------------------------------------------------


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """A C text from elsewhere for the arrays of ``program``.  Raises :class:`UsageError` without the entry function."""
    name = entry or program.name
    if f"{name}(" not in text.replace(" (", "("):
        raise UsageError(f"the text defines no function {name}", hint="name it after the operator, or give an entry")
    arrays = tuple(a for a in program.arrays if a.role != "temporary")
    return Source(target, program.name, name, text, ".c", arrays, program.sizes)
