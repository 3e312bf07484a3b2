"""Foreign Triton text as a source of portakern's."""

from __future__ import annotations

import ast

from portakern.backend import Source, Target
from portakern.errors import UsageError
from portakern.ir.program import Program

from ..text.emitter import entry_of

CONVENTION = """\
A Python text that defines `@triton.jit` kernels and a host function, named as the operator unless an entry is given,
which takes torch tensors in the operator's order, then run-time scalars, then the outputs, writes the outputs in place
and returns nothing: `def softmax(x, y)`. It computes the grid and launches; it may allocate temporaries with torch,
fill, view, copy and cast, but must leave the maths to kernels; it may use triton.autotune, of which the first configuration
counts where nothing can be timed."""


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """Raises :class:`UsageError` when the text is no Python or defines no such host function."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"the Triton text is not Python: line {error.lineno}: {error.msg}", hint=CONVENTION) from None
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    wanted = entry or (own if (own := entry_of(program)) in functions else program.name)
    if wanted not in functions:
        raise UsageError(f"the Triton text defines no function {wanted!r}",
                         hint=f"it defines {', '.join(functions) or 'none'}. {CONVENTION}")  # fmt: skip
    arrays = tuple(a for a in program.arrays if a.role != "temporary")
    return Source(target, program.name, wanted, text, ".py", arrays, program.sizes)
