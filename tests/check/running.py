"""Executables for the tests of the check: functions on numpy arrays, and tile programs in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import HostBuffer
from portakern.ir.program import Program
from portakern.testing.tile_interpreter import run


class FunctionExecutable:
    """Calls ``function(**inputs)``, whose result (or results) it stores to the outputs in order."""

    guards = True

    def __init__(self, function: Callable[..., Any], outputs: Sequence[str] = ("out",)) -> None:
        self.function = function
        self.outputs = outputs

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        arrays = {n: b.array for n, b in buffers.items() if n not in self.outputs}
        with np.errstate(all="ignore"):
            results = self.function(**arrays)
        for name, value in zip(self.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            with np.errstate(over="ignore"):
                buffers[name].array[...] = value

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        raise NotImplementedError


class InterpretedExecutable:
    """Runs a tile program literally."""

    guards = True

    def __init__(self, program: Program) -> None:
        self.program = program

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        inputs = {a.name: buffers[a.name].array.copy() for a in self.program.by_role("input", "scalar")}
        for name, value in run(self.program, inputs, sizes).items():
            with np.errstate(over="ignore"):
                buffers[name].array[...] = value

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        raise NotImplementedError
