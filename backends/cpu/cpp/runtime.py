"""Runs compiled C++ on the CPU: a shared object opened with ctypes, called with pointers."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portakern import native
from portakern.backend import Availability, CompiledBinary, HostBuffer, Prepared, Source, Target
from portakern.errors import RuntimeFault
from portakern.ir.program import Array
from portakern.ir.size import evaluate
from portakern.ir.tile import BufferType
from portakern.launch import NativePrepared

from ..dlpack import address_reader, adopt_array, array_maker, numpy_dtype
from ..host import processor_name

if TYPE_CHECKING:
    import numpy as np

_SCALARS: Mapping[str, Any] = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
    "i8": ctypes.c_int8, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32, "u16": ctypes.c_uint16, "u8": ctypes.c_uint8,
    "bool": ctypes.c_bool, "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16,
}  # fmt: skip
"""How run-time scalars are passed; 16-bit floats are structures of their bits, which travel as an integer does."""


class CppExecutable:
    """A loaded shared object.  Writes outside an array reach whatever lies there, so guard bands see them."""

    guards = True

    def __init__(self, source: Source, function: Any) -> None:
        self.source = source
        self.function = function
        self.inputs = source.by_role("input")
        self.outputs = source.by_role("output")
        self.scalars = source.by_role("scalar")
        function.restype = None
        function.argtypes = [*(ctypes.c_void_p for _ in (*self.inputs, *self.outputs)),
                             *(_SCALARS[a.dtype] for a in self.scalars), *(ctypes.c_int64 for _ in source.sizes)]  # fmt: skip

    def run(self, buffers: Mapping[str, HostBuffer], sizes: Mapping[str, int]) -> None:
        arrays = {name: b.array for name, b in buffers.items()}
        pointers = [arrays[a.name].ctypes.data for a in (*self.inputs, *self.outputs)]
        scalars = [scalar(arrays[a.name][()], a.dtype) for a in self.scalars]
        self.function(*pointers, *scalars, *self._sizes(sizes))

    def call(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Any:
        """On arrays that live in host memory (numpy, torch, jax on the CPU), without a copy.

        ``inputs`` are the operator's inputs in order, scalars after them.  Outputs are new arrays of the first input's
        kind.  Raises :class:`RuntimeFault` for an array of another shape, dtype or layout.
        """
        return self.specialise(inputs, sizes)(inputs)

    def specialise(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Any]:
        """``call`` for arrays like ``inputs``, of which it checks the shapes, dtypes and layouts now.  ctypes lets other
        threads run meanwhile, and nothing is shared between calls."""
        views = self._views(inputs, sizes)
        makers = [array_maker(inputs[0] if views else None, self._shape(a, sizes), a.dtype) for a in self.outputs]
        readers = [address_reader(x) for x, _ in zip(inputs, views, strict=False)]
        dtypes = [a.dtype for a in self.scalars]
        count, last, function = len(views), self._sizes(sizes), self.function

        def call(given: Sequence[Any]) -> Any:
            held = None  # views, where only they tell addresses
            if None in readers:
                held = self._views(given, sizes)
                pointers = [v.ctypes.data for v in held]
            else:
                pointers = [read(x) for read, x in zip(readers, given, strict=False)]  # type: ignore[misc]
            outputs = []
            for make, address in makers:
                made = make()
                outputs.append(made)
                pointers.append(address(made))
            scalars = [scalar(x, dtype) for x, dtype in zip(given[count:], dtypes, strict=True)]
            function(*pointers, *scalars, *last)
            del held
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        return call

    def prepare(self, inputs: Sequence[Any], sizes: Mapping[str, int], outputs: Sequence[Any] | None = None) -> Prepared:
        """``call`` with everything decided, outputs too: the native core calls the function with its packed arguments."""
        views = self._views(inputs, sizes)
        if outputs is None:
            like = inputs[0] if views else None
            outputs = [array_maker(like, self._shape(a, sizes), a.dtype)[0]() for a in self.outputs]
        written = [adopt_array(x, a.name, a.dtype) for a, x in zip(self.outputs, outputs, strict=True)]
        args = [native.pointer(x.ctypes.data) for x in (*views, *written)]
        args += [native.scalar(a.dtype, x) for a, x in zip(self.scalars, inputs[len(views) :], strict=True)]
        args += [native.scalar("i64", n) for n in self._sizes(sizes)]
        device, kernel = self._on_host()
        call = device.call([native.LaunchSpec(kernel, (1, 1, 1), (1, 1, 1), args)])
        call.keep(self.function, *views, *written, *inputs)
        return NativePrepared(call, outputs)

    def _on_host(self) -> tuple[native.Device, native.Kernel]:
        """The function as a kernel of the native core's host."""
        device = native.open_device("host")
        address = ctypes.cast(self.function, ctypes.c_void_p).value
        return device, device.load(b"").kernel(f"0x{address:x}")

    def _views(self, inputs: Sequence[Any], sizes: Mapping[str, int]) -> list[np.ndarray]:
        """The arrays among ``inputs``, checked, as numpy's."""
        views = [adopt_array(x, a.name, a.dtype) for a, x in zip(self.inputs, inputs, strict=False)]
        for a, x in zip(self.inputs, views, strict=True):
            self._check(a, x, sizes)
        return views

    def _sizes(self, sizes: Mapping[str, int]) -> list[int]:
        return [sizes[name] for name in self.source.sizes]

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


def scalar(value: Any, dtype: str) -> Any:
    """A run-time scalar as its C type takes it: 16-bit floats by their bits."""
    if dtype in ("f16", "bf16"):
        import numpy as np

        return int(np.asarray(value).astype(numpy_dtype(dtype)).view(np.uint16)[()])
    return value.item() if hasattr(value, "item") else value


class CppRuntime:
    """The processor that this process runs on."""

    def available(self, target: Target) -> Availability:
        return Availability(True, processor_name())

    def device_name(self, target: Target) -> str:
        return processor_name()

    def load(self, source: Source, binary: CompiledBinary | None) -> CppExecutable:
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
        return CppExecutable(source, function)
