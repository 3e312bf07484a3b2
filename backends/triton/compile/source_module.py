"""Turns Triton text into a module; runs inside worker processes only."""

from __future__ import annotations

import linecache
import types
from collections.abc import Sequence
from typing import Any

from portakern.backend import Source
from portakern.errors import CompileError
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

from ..text.operations import TORCH_DTYPE


def load_module(source: Source) -> types.ModuleType:
    """Execute the text under a name of its own. Triton reads functions back by file name, hence the line cache.

    Raises :class:`CompileError` when the text does not run or defines no ``source.entry``.
    """
    name = f"<{source.operator} for {source.target}>"
    linecache.cache[name] = (len(source.text), None, source.text.splitlines(keepends=True), name)
    module = types.ModuleType(f"portakern_{source.operator}")
    try:
        exec(compile(source.text, name, "exec"), module.__dict__)
    except Exception as error:
        raise CompileError(f"the text of {source.operator} does not run: {error!r}", where=name) from error
    if not callable(getattr(module, source.entry, None)):
        raise CompileError(f"the text of {source.operator} defines no host function {source.entry!r}",
                           hint=f"define `def {source.entry}({', '.join(a.name for a in parameters(source))})`")  # fmt: skip
    return module


def parameters(source: Source) -> tuple[Array, ...]:
    """What the host function takes, in order: inputs, run-time scalars, outputs (and, of a kernel that belongs to no operator,
    what is both)."""
    return tuple(a for role in ("input", "scalar", "output", "inout") for a in source.arrays if a.role == role)


def torch_dtype(name: str) -> Any:
    import torch

    return getattr(torch, TORCH_DTYPE[name].removeprefix("torch."))


def example_sizes(sizes: Sequence[str]) -> dict[str, int]:
    """Values for open dims that no specialisation can profit from: primes, so neither 1 nor a multiple of 16."""
    primes = (1009, 1013, 1019, 1021, 1031, 1033)
    return {name: primes[i % len(primes)] for i, name in enumerate(sizes)}


def divisible_sizes(sizes: Sequence[str]) -> dict[str, int]:
    """Values for open dims with which copies to shared memory are possible that :func:`example_sizes` rule out."""
    return {name: 1024 + 64 * i for i, name in enumerate(sizes)}


def shape_of(array: Array, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(s, sizes) for s in array.type.shape) if isinstance(array.type, BufferType) else ()


def strides_of(array: Array, sizes: dict[str, int]) -> tuple[int, ...]:
    assert isinstance(array.type, BufferType)
    return tuple(evaluate(s, sizes) for s in array.type.element_strides)
