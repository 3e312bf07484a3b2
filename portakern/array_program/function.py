"""A tensor program as a plain Python function on numpy or torch arrays: what a user of those libraries would have written.

The function is generated as text, one line per operation, so that it costs an eager library nothing to walk it and a
tracing compiler sees straight code.  Values have the dtypes that the program says; an array library rounds each of them,
where a kernel may keep more digits in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portakern.ir.tensor import TensorProgram

from .jax_writer import JaxWriter
from .numpy_writer import NumpyWriter
from .torch_writer import TorchWriter

WRITERS = {"numpy": NumpyWriter, "torch": TorchWriter, "jax": JaxWriter}


@dataclass(frozen=True)
class ArrayFunction:
    """``call(*arrays)`` computes the program; ``text`` is its source, ``notes`` where it differs from what the program says."""

    call: Callable[..., Any]
    text: str
    notes: tuple[str, ...] = ()


def array_function(program: TensorProgram, library: str) -> ArrayFunction:
    """``program``, whose dims are bound, as a function of its inputs in order; several outputs come as a tuple.

    Args:
        program: what to compute.
        library: one of :data:`WRITERS`.  Run-time scalars are given as numbers.

    Raises:
        PortakernError: the library has no such operation, of kind ``no-peer``; or it is not installed.
    """
    writer = WRITERS[library](program)
    text = writer.write()
    scope = {**writer.scope(), **writer.constants}
    exec(compile(text, f"<{program.name} on {library} arrays>", "exec"), scope)
    return ArrayFunction(scope[writer.name], text, tuple(dict.fromkeys(writer.notes)))
