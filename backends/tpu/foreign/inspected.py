"""A function that calls Pallas kernels and belongs to no operator, as a source to be compiled, interpreted and estimated."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from portakern.backend import InspectedKernel, KernelArgument, Source, Target
from portakern.errors import UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType

from ..trace.dtypes import ir_dtype
from ..trace.source_module import entry_function, example_inputs

ENTRY = "portakern_inspected"
EXAMPLE = "example_inputs"


def inspected(kernel: InspectedKernel, target: Target, found: Sequence[str] = ()) -> Source:
    """The text with an entry that takes the arrays and passes the numbers on as Python's own (block sizes, say).

    Without arguments, a function ``example_inputs()`` of the text gives the arrays (the only way to say what indices hold).
    Raises :class:`UsageError` where the text is no Python, holds no such function, or what it is called with is missing.
    """
    tree = _parsed(kernel.text)
    name = _name(kernel, tree)
    if not kernel.arguments:
        return _with_example(kernel, target, tree, name)
    arrays = [g for g in kernel.arguments if g.shape is not None]
    made = tuple(Array(g.name, BufferType(g.shape or (), g.dtype), "input") for g in arrays)
    return _source(kernel, target, name, made, _call(kernel.arguments, _parameters(tree, name)))


def _source(kernel: InspectedKernel, target: Target, name: str, arrays: tuple[Array, ...], call: str,
            example: str = "") -> Source:  # fmt: skip
    """The entry goes below the text, so that lines stay where they are."""
    text = f"{kernel.text.rstrip()}\n\n\ndef {ENTRY}({', '.join(a.name for a in arrays)}):\n    return {name}({call})\n"
    options = (("file", kernel.file), ("example", example))
    return Source(target, name, ENTRY, text, ".py", arrays, options=options)


def _with_example(kernel: InspectedKernel, target: Target, tree: ast.Module, name: str) -> Source:
    parameters = _parameters(tree, name)
    if EXAMPLE not in _functions(tree):
        raise UsageError(f"{name} is compiled for the shapes of its arguments ({', '.join(parameters) or 'none known'})",
                         hint=f"say them, --args 'x=bf16[4096,4096],block=512', or define {EXAMPLE}() that returns the arrays")
    source = _source(kernel, target, name, (), "", EXAMPLE)
    entry_function(source)
    values = example_inputs(source) or ()
    names = parameters if len(parameters) >= len(values) else [f"x{n}" for n in range(len(values))]
    arrays = tuple(Array(n, BufferType(v.shape, ir_dtype(v.dtype)), "input") for n, v in zip(names, values, strict=False))
    return _source(kernel, target, name, arrays, ", ".join(a.name for a in arrays), EXAMPLE)


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"the Pallas text is not Python: line {error.lineno}: {error.msg}") from None


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}


def _name(kernel: InspectedKernel, tree: ast.Module) -> str:
    """The function asked for, or the only one that calls ``pallas_call``."""
    functions = _functions(tree)
    assigned = [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    if kernel.entry:
        if kernel.entry not in (*functions, *assigned):
            raise UsageError(f"the Pallas text defines no function {kernel.entry!r}", hint=f"it defines {_listed(functions)}")
        return kernel.entry
    calling = [n for n, f in functions.items() if any(_calls_pallas(x) for x in ast.walk(f))]
    if len(calling) != 1:
        raise UsageError(f"the Pallas text holds {len(calling)} functions that call pallas_call",
                         hint=f"name the one to call: FILE:NAME; it defines {_listed(functions)}")
    return calling[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _calls_pallas(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "pallas_call") or (
        isinstance(node, ast.Name) and node.id == "pallas_call"
    )


def _parameters(tree: ast.Module, name: str) -> list[str]:
    function = _functions(tree).get(name)
    return [a.arg for a in (*function.args.args, *function.args.kwonlyargs)] if function is not None else []


def _call(arguments: Sequence[KernelArgument], parameters: Sequence[str]) -> str:
    named = all(g.name in parameters for g in arguments)
    said = [(g.name, g.name if g.shape is not None else repr(g.value)) for g in arguments]
    return ", ".join(f"{n}={value}" if named else value for n, value in said)
