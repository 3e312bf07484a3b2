"""A Triton kernel, or a host function that launches some, that belongs to no operator."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from portakern.backend import InspectedKernel, KernelArgument, Source, Target
from portakern.errors import UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType

ENTRY = "portakern_inspected"


def inspected(kernel: InspectedKernel, target: Target, found: Sequence[str] = ()) -> Source:
    """The text with a host function that calls the kernel with the numbers given, and takes the arrays.

    Raises :class:`UsageError` where the text is no Python, holds no such function, or what it is called with is missing.
    """
    function = _function(kernel)
    if not kernel.arguments:
        names = ", ".join(a.arg for a in function.args.args)
        raise UsageError(f"{function.name} is compiled for the types of its arguments ({names})",
                         hint="say them: --args 'x=bf16[4096,4096],n=4096,BLOCK=1024'")  # fmt: skip
    arrays = [g for g in kernel.arguments if g.shape is not None]
    call = _call(kernel, function)
    text = f"{kernel.text.rstrip()}\n\n\ndef {ENTRY}({', '.join(g.name for g in arrays)}):\n    {call}\n"
    made = tuple(Array(g.name, BufferType(g.shape or (), g.dtype), "inout") for g in arrays)
    return Source(target, function.name, ENTRY, text, ".py", made, ())


def _function(kernel: InspectedKernel) -> ast.FunctionDef:
    try:
        tree = ast.parse(kernel.text)
    except SyntaxError as error:
        raise UsageError(f"the Triton text is not Python: line {error.lineno}: {error.msg}") from None
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    kernels = [n.name for n in functions.values() if _is_kernel(n)]
    wanted = kernel.entry or (kernels[0] if len(kernels) == 1 else "")
    if wanted not in functions:
        said = f"defines no function {kernel.entry!r}" if kernel.entry else f"holds {len(kernels)} kernels"
        raise UsageError(f"the Triton text {said}", hint=f"name one: FILE:NAME; it defines {', '.join(functions) or 'none'}")
    return functions[wanted]


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(d) or "autotune" in ast.unparse(d) for d in function.decorator_list)


def _call(kernel: InspectedKernel, function: ast.FunctionDef) -> str:
    names = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
    options = ("num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
    named = all(g.name in names or g.name in options for g in kernel.arguments)
    given = ", ".join(f"{g.name}={_text(g)}" if named else _text(g) for g in kernel.arguments)
    if not _is_kernel(function):
        return f"{function.name}({given})"
    if kernel.grid is None:
        raise UsageError(f"{function.name} is a kernel, which is launched on a grid", hint="say it: --grid 1024 (or X,Y,Z)")
    return f"{function.name}[{kernel.grid}]({given})"


def _text(given: KernelArgument) -> str:
    return given.name if given.shape is not None else repr(given.value)
