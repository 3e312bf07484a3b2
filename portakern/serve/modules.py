"""A PyTorch class of the kind that KernelBench asks for (``ModelNew``) as a host function of Triton's convention.

What is added to the candidate's text runs where the text does: in the kernel's jail.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from portakern.errors import UsageError
from portakern.jobs.described import Described
from portakern.study.steps import arrays_of
from portakern.study.work import arg_rows

ENTRY = "portakern_entry"

_TEXT = '''

# ---- added by portakern: the class as a function that writes into given arrays

_PORTAKERN_REFERENCE = {reference!r}
_portakern_held = {{}}


def _portakern_module(device):
    """The class with the reference's arguments, and where its parameters and buffers are by the reference's paths."""
    if device not in _portakern_held:
        import torch

        scope = {{"__name__": "portakern_reference"}}
        exec(compile(_PORTAKERN_REFERENCE, "reference.py", "exec"), scope)
        init = scope["get_init_inputs"]() if "get_init_inputs" in scope else ()
        with torch.device(device):
            module = {cls}(*init).to(device).eval()
            theirs = scope[{entry!r}](*init)
            inputs = list(scope["get_inputs"]())
        names = [n for n, _ in (*theirs.named_parameters(), *theirs.named_buffers())]
        mine = dict((*module.named_parameters(), *module.named_buffers()))
        if set(names) - set(mine):  # named otherwise: taken in their order, where they have the same shapes
            shapes = [tuple(x.shape) for _, x in (*theirs.named_parameters(), *theirs.named_buffers())]
            if shapes != [tuple(x.shape) for x in mine.values()]:
                raise RuntimeError("{cls} has other parameters than {entry}: " + ", ".join(mine) + " for " + ", ".join(names))
            mine = dict(zip(names, mine.values()))
        _portakern_held[device] = module, mine, inputs
    return _portakern_held[device]


def {name}({parameters}):
    import torch

    module, held, inputs = _portakern_module({first}.device)
    for path, value in {weights}:
        held[path].data = value
    inputs = list(inputs)
    for place, value in {inputs}:
        inputs[place] = value
    with torch.no_grad():
        found = module(*inputs)
    for out, value in zip({outputs}, found if isinstance(found, (tuple, list)) else (found,)):
        out.copy_(value)
'''


def adapted(source: str, reference: str, entry: str, made: Described) -> str:
    """``source``, which defines ``{entry}New``, with the function :data:`ENTRY` added, which calls it in the convention of
    ``made``.  Raises :class:`UsageError` where it defines no such class."""
    cls = f"{entry}New"
    if not defines_class(source, cls):
        raise UsageError(f"the kernel defines no class {cls}",
                         hint=f"write class {cls}(nn.Module) with the arguments of {entry}")
    rows = arg_rows(arrays_of(made.work.program))
    given = [name for name, role, _, _ in rows if role != "output"]
    outputs = [name for name, role, _, _ in rows if role == "output"]
    weights = [(made.paths[n], n) for n in given if n in made.paths]
    inputs = [(made.numbers[n], n) for n in given if n in made.numbers]
    if missing := [n for n in given if n not in made.paths and n not in made.numbers]:
        raise UsageError(f"{entry} draws or holds {', '.join(missing)}, which a class of its own cannot be given",
                         hint="only modules of parameters, buffers and inputs are judged this way")  # fmt: skip
    words = {"reference": reference, "cls": cls, "entry": entry, "name": ENTRY, "parameters": ", ".join([*given, *outputs]),
             "first": (given + outputs)[0], "weights": _pairs(weights), "inputs": _pairs(inputs),
             "outputs": f"({', '.join(outputs)},)"}  # fmt: skip
    return source + _TEXT.format(**words)


def defines_class(source: str, name: str) -> bool:
    try:
        return any(isinstance(n, ast.ClassDef) and n.name == name for n in ast.parse(source).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _pairs(pairs: Sequence[tuple[object, str]]) -> str:
    return f"({''.join(f'({key!r}, {name}), ' for key, name in pairs)})"
