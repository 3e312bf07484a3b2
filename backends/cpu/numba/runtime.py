"""Runs compiled numba kernels on numpy arrays, and on whatever shares host memory by DLPack."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from portakern.backend import Availability, CompiledBinary, HostBuffer, Prepared, Source, Target
from portakern.errors import PortakernError, RuntimeFault
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.launch import PythonPrepared

from ..dlpack import adopt_array, array_maker, view_reader
from ..host import processor_name
from .alone import Noted, host_alone, kernels_alone, noted
from .toolchain import ENVIRONMENT, tools

Made = TypeVar("Made")


class NumbaRuntime:
    """The processor of this machine."""

    parts = ("kernels", "host")
    recalls = True

    def available(self, target: Target) -> Availability:
        found = tools()
        return Availability(True, f"{processor_name()}, {found.detail}") if found else found

    def device_name(self, target: Target) -> str:
        return processor_name()

    def load(self, source: Source, binary: CompiledBinary | None) -> NumbaExecutable:
        """With a binary nothing is compiled; without one numba compiles at the first run."""
        for name, value in ENVIRONMENT.items():
            if not name.startswith("PORTAKERN"):
                os.environ.setdefault(name, value)
        return NumbaExecutable(source, binary)


class NumbaExecutable:
    """A host function with its kernels. Guard bands work: arrays are views into the storage."""

    guards = True

    def __init__(self, source: Source, binary: CompiledBinary | None) -> None:
        from .module import load_module, parameters, restore

        self.source = source
        module = restore(source, binary.data) if binary is not None else load_module(source)
        self.function = getattr(module, source.entry)
        self.parameters = parameters(source)
        self._watched = False
        self._last: Noted | None = None

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        arguments = self._in(buffers)
        if self._watched:
            self._last = self._guarded(lambda: noted(self.function, arguments))
        else:
            self._launch(arguments)

    def _in(self, buffers: Mapping[str, HostBuffer]) -> list[Any]:
        values = [(buffers[a.name].array, a) for a in self.parameters]
        return [_bits(x, a.dtype) if a.role != "scalar" else _scalar(x, a.dtype) for x, a in values]

    def watch(self) -> None:
        self._watched = True

    def run_part(self, part: str, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> str:
        arguments, before = self._in(buffers), self._last
        assert before is not None
        if part == "host":
            return self._guarded(lambda: host_alone(self.function, arguments))
        return self._guarded(lambda: kernels_alone(self.function, arguments, before))

    def _launch(self, arguments: Sequence[Any]) -> None:
        self._guarded(lambda: self.function(*arguments))

    def _guarded(self, work: Callable[[], Made]) -> Made:
        """What ``work`` raises, in our words."""
        try:
            return work()
        except Exception as error:
            if isinstance(error, PortakernError) and error.kind == "decoy":
                raise
            raise RuntimeFault(f"{self.source.operator} on {self.source.target} failed: {type(error).__name__}: {error}"
                               ) from error  # fmt: skip

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """Inputs (and scalars) in order, as numpy arrays or host arrays that speak DLPack; new outputs of that kind."""
        return self.specialise(inputs, sizes)(inputs)

    def specialise(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """``call`` for arrays like ``inputs``; numba's dispatcher itself looks at the type of every argument."""
        self._arguments(inputs)
        given = [a for a in self.parameters if a.role != "output"]
        takers = [_taker(x, a) for x, a in zip(inputs, given, strict=True)]
        makers: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = []
        for a in self.source.by_role("output"):
            make = self._maker(inputs, a, sizes)
            makers.append((make, view_reader(make(), a.dtype)))

        def call(again: Sequence[Any]) -> Any:
            arguments = [take(x) for take, x in zip(takers, again, strict=True)]
            outputs = []
            for make, view in makers:
                outputs.append(made := make())
                arguments.append(view(made))
            self._launch(arguments)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        return call

    def prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int], outputs: Sequence[Any] | None = None) -> Prepared:
        """``call`` with everything decided, outputs too."""
        wanted = self.source.by_role("output")
        written = [self._maker(inputs, a, sizes)() for a in wanted] if outputs is None else list(outputs)
        arguments = self._arguments(inputs)
        arguments += [_bits(adopt_array(x, a.name, a.dtype), a.dtype) for x, a in zip(written, wanted, strict=True)]

        def call(stream: int, _kept: Any = tuple(inputs)) -> None:
            self._launch(arguments)

        return PythonPrepared(call, written)

    def _arguments(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs as kernels take them, checked."""
        given = [a for a in self.parameters if a.role != "output"]
        if len(inputs) != len(given):
            raise RuntimeFault(f"{self.source.operator} takes {len(given)} arrays, not {len(inputs)}", kind="bad-argument")
        return [_scalar(np.asarray(x), a.dtype) if a.role == "scalar" else _bits(adopt_array(x, a.name, a.dtype), a.dtype)
                for x, a in zip(inputs, given, strict=True)]  # fmt: skip

    def _maker(self, inputs: Sequence[Any], array: Array, sizes: Mapping[str, int]) -> Callable[[], Any]:
        assert isinstance(array.type, BufferType)
        shape = tuple(evaluate(s, sizes) for s in array.type.shape)
        return array_maker(inputs[0] if inputs else None, shape, array.dtype)[0]


def _taker(model: Any, array: Array) -> Callable[[Any], Any]:
    """What makes each input like ``model`` the argument that kernels take."""
    if array.role == "scalar":
        return lambda x: _scalar(np.asarray(x), array.dtype)
    return view_reader(model, array.dtype)


def _bits(array: np.ndarray, dtype: str) -> np.ndarray:
    """16-bit floats as their bit patterns, other arrays as they are."""
    return array.view(np.uint16) if dtype in ("bf16", "f16") else array


def _scalar(value: np.ndarray, dtype: str) -> Any:
    """A run-time scalar in the type kernels compute in."""
    names = {"f64": np.float64, "f32": np.float32, "f16": np.float32, "bf16": np.float32, "bool": np.bool_}
    return names.get(dtype, np.int64)(value.item())
