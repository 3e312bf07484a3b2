"""Foreign Pallas kernels: any Python text that defines a function on arrays."""

from __future__ import annotations

import ast

from portakern.backend import Source, Target
from portakern.errors import UsageError
from portakern.ir.program import Program

from ..text.typical import typical

CONVENTION = (
    "Python text that imports jax and Pallas and defines a function named as the operator (or named by `entry`): it takes "
    "the operator's inputs as jax arrays in order, then its run-time scalars, and returns the output (a tuple if there are "
    "several). It calls pl.pallas_call without `interpret`; shapes are static while it is traced, so it may read sizes "
    "from x.shape. Beside kernels it may move, pad and cast arrays, but must leave the maths to kernels. "
    "Arrays of int64 come as int32, limited to its range; results that are int64 are returned as int32."
)


def adopt(text: str, entry: str | None, program: Program, target: Target) -> Source:
    """``text`` as a source for the arrays of ``program``.

    Raises :class:`UsageError` when the text is not Python or does not define the entry function.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"the source is not Python: line {error.lineno}: {error.msg}") from None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assigned = [t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)]
    name = entry or (program.name if program.name in (*functions, *assigned) else (functions[-1] if functions else ""))
    if name not in (*functions, *assigned):
        raise UsageError(f"the source defines no function {name or program.name}",
                         hint=f"it defines {', '.join(functions) or 'none'}; {CONVENTION}")
    return Source(target, program.name, name, text, ".py", program.arrays, program.sizes,
                  options=(("typical", typical(program)),))
