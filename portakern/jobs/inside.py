"""What a jailed process does with the text of a stranger: it gives JSON, which is read by :mod:`portakern.jobs.described`."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portakern.errors import PortakernError, UsageError
from portakern.ir.core import format_function
from portakern.jobs import families
from portakern.spec.operator import Operator, dynamic
from portakern.study.work import Work

FILE = "task.py"
"""What the text is called in errors."""


def any_target() -> str:
    """The program is the same for every target; a processor has all dtypes."""
    from portakern.registry import registry

    return str(registry().match("*:cpu")[0])


def operator(text: str, function: str, dtype: str | None, values: str) -> dict[str, Any]:
    """The program of an operator in ``text`` at the sizes and parameters in ``values``, which is JSON."""
    from portakern.spec.load import load_operator

    Path(FILE).write_text(text, encoding="utf-8")
    op = load_operator(f"{FILE}:{function}" if function else FILE)
    return description(op, work_of(op, any_target(), dtype, json.loads(values)))


def module(text: str, entry: str) -> dict[str, Any]:
    """The program of the PyTorch class ``entry`` in ``text``, on what its ``get_inputs()`` gives."""
    import torch

    from portakern.check.sampled import affordable
    from portakern.suite.taskfile import entries, executed
    from portakern.torch_import import from_torch
    from portakern.torch_import.agreement import agreement

    warnings.simplefilter("ignore")
    scope = executed(ast.parse(text, FILE), FILE)
    if entry not in scope or "get_inputs" not in scope:
        raise UsageError(f"the text has no {entry if entry not in scope else 'get_inputs()'}",
                         hint=f"it needs a class {entry}, get_inputs() and get_init_inputs()")
    torch.manual_seed(0)
    model = scope[entry](*entries(scope, "get_init_inputs"))
    op = from_torch(model, tuple(entries(scope, "get_inputs")), name="model")
    work = work_of(op, any_target(), None, {})
    if affordable(op.program(op.typical.dims)):
        agreement(op).raise_if_wrong(op)
    return {**description(op, work), "source": text, "paths": dict(op.paths), "numbers": dict(op.numbers)}


def work_of(op: Operator, target: str, dtype: str | None, values: Mapping[str, Any]) -> Work:
    """What :func:`portakern.task` makes of the same; a dim that is ``None`` stays open."""
    from portakern.api import dtype_of, one, typical
    from portakern.study.work import works

    given = {k: dynamic if v is None and k not in op.params else tuple(v) if isinstance(v, list) else v
             for k, v in values.items()}  # fmt: skip
    (work,) = works(typical(op, given), [one(target)], [dtype_of(op, dtype)])
    return work


def description(op: Operator, work: Work) -> dict[str, Any]:
    row = work.row
    return {"name": op.name, "doc": op.doc, "source": op.source, "program": format_function(work.program),
            "names": {k: list(v) for k, v in work.names.items()}, "sizes": dict(work.sizes), "shape": row.shape,
            "dtype": row.dtype, "params": row.params, "families": families.written(work.families),
            "declared": families.written(work.declared)}  # fmt: skip


def inspection(text: str, target: str, entry: str, args: str, grid: list[int] | None, block: list[int] | None,
               shared_bytes: int, run: bool) -> dict[str, Any]:  # fmt: skip
    """A kernel that belongs to no operator, looked at in this process."""
    from portakern.api import triple
    from portakern.backend import InspectedKernel
    from portakern.study.inspecting import arguments_of, examine

    kernel = InspectedKernel(text, entry, arguments_of(args), triple(grid), triple(block), shared_bytes, "")
    try:
        return examine(kernel, target, run=run).to_dict()
    except PortakernError as error:
        return {"target": target, "error": error.to_dict()}
