"""Runs compiled C++ on the CPU: a shared object opened with ctypes, called with pointers."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern.backend import Availability, Binary, HostBuffer, Source, Target
from portakern.errors import RuntimeFault
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

from .dlpack import adopt_array, empty_like_kind
from .host import processor_name

if TYPE_CHECKING:
    import numpy as np

_SCALARS: Mapping[str, Any] = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
    "i8": ctypes.c_int8, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32, "u16": ctypes.c_uint16, "u8": ctypes.c_uint8,
    "bool": ctypes.c_bool,
}  # fmt: skip


class CppExecutable:
    """A loaded shared object.  Writes outside an array reach whatever lies there, so guard bands see them."""

    guards = True

    def __init__(self, source: Source, function: Any) -> None:
        self.source = source
        self.function = function
        self.pointers = source.by_role("input", "output")
        self.scalars = source.by_role("scalar")

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        arrays = {name: b.array for name, b in buffers.items()}
        self._call({n: a.ctypes.data for n, a in arrays.items()}, {s.name: arrays[s.name][()] for s in self.scalars}, sizes)

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """On arrays that live in host memory (numpy, torch, jax on the CPU), without a copy.

        ``inputs`` are the operator's inputs in order, scalars after them.  Outputs are new arrays of the first input's
        kind.  Raises :class:`RuntimeFault` for an array of another shape, dtype or layout.
        """
        wanted = self.source.by_role("input")
        given = {a.name: adopt_array(x, a.name, a.dtype) for a, x in zip(wanted, inputs, strict=False)}
        scalars = {a.name: x for a, x in zip(self.scalars, inputs[len(wanted) :], strict=True)}
        pointers: dict[str, int] = {}
        for a in wanted:
            self._check(a, given[a.name], sizes)
            pointers[a.name] = given[a.name].ctypes.data
        outputs = []
        for a in self.source.by_role("output"):
            made, pointer = empty_like_kind(inputs[0] if inputs else None, self._shape(a, sizes), a.dtype)
            outputs.append(made)
            pointers[a.name] = pointer
        self._call(pointers, scalars, sizes)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _shape(self, a: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
        assert isinstance(a.type, BufferType)
        return tuple(evaluate(n, sizes) for n in a.type.shape)

    def _check(self, a: Array, x: np.ndarray, sizes: Mapping[str, int]) -> None:
        assert isinstance(a.type, BufferType)
        shape = self._shape(a, sizes)
        strides = tuple(evaluate(n, sizes) * x.itemsize for n in a.type.element_strides)
        same = all(n == 1 or have == want for n, have, want in zip(shape, x.strides, strides, strict=False))
        if x.shape != shape or (not same and 0 not in shape):
            have = f"{tuple(x.shape)} with strides of {tuple(s // x.itemsize for s in x.strides)} elements"
            raise RuntimeFault(f"the array {a.name} is {have}; this build takes {a.type}",
                               hint="pass a contiguous array of that shape, or build for these sizes", kind="bad-argument")

    def _call(self, pointers: Mapping[str, int], scalars: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        args: list[Any] = [ctypes.c_void_p(pointers[a.name]) for a in self.pointers]
        args += [_SCALARS[a.dtype](scalars[a.name]) for a in self.scalars]
        args += [ctypes.c_int64(sizes[name]) for name in self.source.sizes]
        self.function(*args)


class CppRuntime:
    """The processor that this process runs on."""

    def available(self, target: Target) -> Availability:
        return Availability(True, processor_name())

    def device_name(self, target: Target) -> str:
        return processor_name()

    def load(self, source: Source, binary: Binary | None) -> CppExecutable:
        """Raises :class:`RuntimeFault` where the object cannot be opened or lacks the entry function."""
        if binary is None:
            raise RuntimeFault(f"{source.operator} for {source.target} was not compiled", kind="load")
        handle, path = tempfile.mkstemp(prefix="portakern-", suffix=".so")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(binary.data)
            library = ctypes.CDLL(path)  # the mapping outlives the file
        except OSError as error:
            raise RuntimeFault(f"the shared object of {source.operator} cannot be opened: {error}", kind="load") from None
        finally:
            Path(path).unlink(missing_ok=True)
        try:
            function = library[source.entry]
        except AttributeError:
            raise RuntimeFault(f"the source exports no function {source.entry!r}",
                               hint=f'define extern "C" void {source.entry}(...)', kind="load") from None
        function.restype = None
        return CppExecutable(source, function)
