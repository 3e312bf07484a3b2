"""Turning the text of a Pallas program into its entry function.  Imports jax; used in worker processes only."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from portakern.backend import Source
from portakern.errors import CompileError


def file_name(source: Source) -> str:
    """What tracebacks call the source."""
    return f"<{source.operator} {source.digest[:12]}>.py"


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
    return function


@contextmanager
def interpreted(strict: bool) -> Iterator[None]:
    """Every ``pl.pallas_call`` traced inside runs in Pallas's interpreter, though the source says nothing of it.

    ``strict`` takes the interpreter that models a TPU's memories: reading what was never written gives NaN, and reading
    or writing outside a buffer raises.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    real = pl.pallas_call
    mode: Any = pltpu.InterpretParams(uninitialized_memory="nan", out_of_bounds_reads="raise") if strict else True

    def interpreting(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **{**kwargs, "interpret": mode})

    pl.pallas_call = interpreting
    try:
        yield
    finally:
        pl.pallas_call = real
