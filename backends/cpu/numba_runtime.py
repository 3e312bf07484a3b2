"""Runs compiled numba kernels on numpy arrays, and on whatever shares host memory by DLPack."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portakern.backend import Availability, Binary, HostBuffer, Source, Target
from portakern.errors import RuntimeFault
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

from .dlpack import adopt_array, empty_like_kind
from .host import processor_name
from .numba_toolchain import ENVIRONMENT, tools


class NumbaRuntime:
    """The processor of this machine."""

    def available(self, target: Target) -> Availability:
        found = tools()
        return Availability(True, f"{processor_name()}, {found.detail}") if found else found

    def device_name(self, target: Target) -> str:
        return processor_name()

    def load(self, source: Source, binary: Binary | None) -> NumbaExecutable:
        """With a binary nothing is compiled; without one numba compiles at the first run."""
        for name, value in ENVIRONMENT.items():
            if not name.startswith("PORTAKERN"):
                os.environ.setdefault(name, value)
        return NumbaExecutable(source, binary)


class NumbaExecutable:
    """A host function with its kernels. Guard bands work: arrays are views into the storage."""

    guards = True

    def __init__(self, source: Source, binary: Binary | None) -> None:
        from .numba_module import load_module, parameters, restore

        self.source = source
        module = restore(source, binary.data) if binary is not None else load_module(source)
        self.function = getattr(module, source.entry)
        self.parameters = parameters(source)

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        arguments: list[Any] = []
        for array in self.parameters:
            value = buffers[array.name].array
            arguments.append(_bits(value, array.dtype) if array.role != "scalar" else _scalar(value, array.dtype))
        self._launch(arguments)

    def _launch(self, arguments: Sequence[Any]) -> None:
        try:
            self.function(*arguments)
        except Exception as error:
            raise RuntimeFault(f"{self.source.operator} on {self.source.target} failed: {type(error).__name__}: {error}"
                               ) from error  # fmt: skip

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Inputs (and scalars) in order, as numpy arrays or host arrays that speak DLPack; new outputs of that kind."""
        given = [a for a in self.parameters if a.role != "output"]
        if len(inputs) != len(given):
            raise RuntimeFault(f"{self.source.operator} takes {len(given)} arrays, not {len(inputs)}", kind="bad-argument")
        arguments: list[Any] = []
        for array, value in zip(given, inputs, strict=True):
            if array.role == "scalar":
                arguments.append(_scalar(np.asarray(value), array.dtype))
            else:
                arguments.append(_bits(adopt_array(value, array.name, array.dtype), array.dtype))
        results = []
        for array in self.source.by_role("output"):
            assert isinstance(array.type, BufferType)
            shape = tuple(evaluate(s, sizes) for s in array.type.shape)
            made, _ = empty_like_kind(inputs[0] if inputs else None, shape, array.dtype)
            results.append(made)
            arguments.append(_bits(adopt_array(made, array.name, array.dtype), array.dtype))
        self._launch(arguments)
        return results[0] if len(results) == 1 else tuple(results)


def _bits(array: np.ndarray, dtype: str) -> np.ndarray:
    """16-bit floats as their bit patterns, other arrays as they are."""
    return array.view(np.uint16) if dtype in ("bf16", "f16") else array


def _scalar(value: np.ndarray, dtype: str) -> Any:
    """A run-time scalar in the type kernels compute in."""
    names = {"f64": np.float64, "f32": np.float32, "f16": np.float32, "bf16": np.float32, "bool": np.bool_}
    return names.get(dtype, np.int64)(value.item())
