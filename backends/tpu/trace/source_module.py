"""Turning the text of a Pallas program into its entry function.  Imports jax; used in worker processes only."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from portakern.backend import Source
from portakern.errors import CompileError


def file_name(source: Source) -> str:
    """What tracebacks call the source: the user's own file where it is one."""
    return dict(source.options).get("file") or f"<{source.operator} {source.digest[:12]}>.py"


def entry_function(source: Source) -> Callable[..., Any]:
    """Run the text as a module of its own and give the function it is called by.

    Raises :class:`CompileError` when the text does not run or has no such function.
    """
    name = file_name(source)
    module = ModuleType(f"portakern_{source.digest[:12]}")
    sys.modules[module.__name__] = module
    # Lets tracebacks and the compiler's locations show the line.
    linecache.cache[name] = (len(source.text), None, source.text.splitlines(True), name)
    try:
        exec(compile(source.text, name, "exec"), module.__dict__)
    except Exception as error:
        raise CompileError(f"{source.operator}: the source does not run: {type(error).__name__}: {error}",
                           log=repr(error)) from error
    function = getattr(module, source.entry, None)
    if not callable(function):
        raise CompileError(f"{source.operator}: the source defines no function {source.entry}",
                           hint=f"define `def {source.entry}(...)`, or name the entry", kind="compile-entry")
    if isinstance(function, FunctionType):
        function.__name__ = source.operator  # what jax calls the program, and kernels without a name of their own
    return function


def example_inputs(source: Source) -> tuple[Any, ...] | None:
    """The arrays that a text from elsewhere brings for its own kernel, where it does and is asked to."""
    name = dict(source.options).get("example")
    if not name:
        return None
    found = getattr(sys.modules[f"portakern_{source.digest[:12]}"], name)()
    arrays = tuple(np.asarray(x) for x in (found if isinstance(found, tuple | list) else (found,)))
    if any(a.dtype.kind == "O" for a in arrays):
        raise CompileError(f"{name}() of {source.operator} gives something that is no array", kind="compile-entry")
    return arrays
