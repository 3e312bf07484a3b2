"""Runs a compiled text: a shared object opened with ctypes."""

from __future__ import annotations

import ctypes
import platform
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from portakern.backend import Availability, CompiledBinary, HostBuffer, Source, Target
from portakern.dtypes import numpy_dtype
from portakern.errors import RuntimeFault
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType

SCALARS = {"f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
           "i8": ctypes.c_int8, "u8": ctypes.c_uint8, "bool": ctypes.c_bool}


class CExecutable:
    """A loaded function.  It writes where it is told to, so guard bands see a write outside an array."""

    guards = True

    def __init__(self, source: Source, function: Any) -> None:
        self.source, self.function = source, function

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        self.launch({name: b.array for name, b in buffers.items()}, sizes)

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """On arrays in host memory; outputs are numpy arrays."""
        given = dict(zip([a.name for a in self.source.by_role("input", "scalar")], inputs, strict=True))
        arrays = {name: x if isinstance(x, np.ndarray) else np.asarray(x) if np.isscalar(x) else np.from_dlpack(x)
                  for name, x in given.items()}
        for a in self.source.by_role("output"):
            assert isinstance(a.type, BufferType)
            arrays[a.name] = np.empty([evaluate(s, sizes) for s in a.type.shape], numpy_dtype(a.dtype))
        self.launch(arrays, sizes)
        outputs = tuple(arrays[a.name] for a in self.source.by_role("output"))
        return outputs[0] if len(outputs) == 1 else outputs

    def launch(self, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        pointers = [ctypes.c_void_p(arrays[a.name].ctypes.data) for a in self.source.by_role("input", "output")]
        scalars = [SCALARS[a.dtype](arrays[a.name].item()) for a in self.source.by_role("scalar")]
        self.function(*pointers, *scalars, *(ctypes.c_int64(sizes[name]) for name in self.source.sizes))


class CRuntime:
    def available(self, target: Target) -> Availability:
        return Availability(True, self.device_name(target))

    def device_name(self, target: Target) -> str:
        return platform.processor() or platform.machine()

    def load(self, source: Source, binary: CompiledBinary | None) -> CExecutable:
        """Raises :class:`RuntimeFault` where the object cannot be opened or lacks the entry function."""
        if binary is None:
            raise RuntimeFault(f"{source.operator} was not compiled")
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            Path(file.name).write_bytes(binary.data)
            try:
                function = ctypes.CDLL(file.name)[source.entry]
            except (OSError, AttributeError) as error:
                raise RuntimeFault(f"the compiled text cannot be loaded: {error}") from None
        function.restype = None
        return CExecutable(source, function)
