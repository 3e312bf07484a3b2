"""The numba language of the CPU backend, and how foreign numba texts are taken."""

from __future__ import annotations

import ast

from portakern.backend import Language, Source, Target
from portakern.errors import UsageError
from portakern.ir.program import Program

from .emitter import NumbaEmitter, entry_of
from .runtime import NumbaRuntime
from .schedules import OPTIONS, SORTED, schedules
from .spoken import WORDS
from .toolchain import ENVIRONMENT, NumbaToolchain

CONVENTION = """\
A Python text that defines `@njit` kernels and a host function, named as the operator unless an entry is given, which
takes numpy arrays in the operator's order, then run-time scalars, then the outputs, writes the outputs in place and
returns nothing: `def softmax(x, y)`. Arrays of f16 and bf16 come as uint16 bit patterns. The host function calls the
kernels; it may allocate temporaries with numpy, fill and copy, but must leave the maths to kernels."""


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """Foreign text as a source. Raises :class:`UsageError` when it is no Python or defines no such host function."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"the numba text is not Python: line {error.lineno}: {error.msg}", hint=CONVENTION) from None
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    wanted = entry or (own if (own := entry_of(program)) in functions else program.name)
    if wanted not in functions:
        raise UsageError(f"the numba text defines no function {wanted!r}",
                         hint=f"it defines {', '.join(functions) or 'none'}. {CONVENTION}")  # fmt: skip
    arrays = tuple(a for a in program.arrays if a.role != "temporary")
    return Source(target, program.name, wanted, text, ".py", arrays, program.sizes)


NUMBA = Language(
    name="numba",
    title="numba",
    targets=("cpu",),
    emitter=NumbaEmitter(),
    schedules=schedules,
    options=OPTIONS,
    sorts=SORTED,
    toolchain=NumbaToolchain(),
    runtime=NumbaRuntime(),
    environment=ENVIRONMENT,
    convention=CONVENTION,
    adopt=adopt,
    preload=("numba",),
    forks=True,
    words=WORDS,
    units=lambda device, dtype: False,
    shares_process=True,
)
