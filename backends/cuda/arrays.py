"""Device arrays of other libraries: where they lie, what shape they have, and new ones of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portakern.errors import UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType


class Arrays:
    """What is asked of a library of device arrays; this base speaks torch."""

    def view(self, given: Any) -> Any:
        """``given`` as an array of this library, without a copy."""
        return given

    def result(self, made: Any) -> Any:
        """``made`` as an array of the caller's library."""
        return made

    def stream(self, ordinal: int) -> int:
        import torch

        return torch.cuda.current_stream(ordinal).cuda_stream

    def pointer(self, array: Any) -> int:
        return array.data_ptr()

    def device(self, array: Any) -> tuple[str, int]:
        return array.device.type, array.device.index or 0

    def dtype(self, array: Any) -> str:
        return _SHORT.get(str(array.dtype).removeprefix("torch."), str(array.dtype))

    def strides(self, array: Any) -> tuple[int, ...]:
        """In elements."""
        return tuple(array.stride())

    def empty(self, shape: Sequence[int], dtype: str, ordinal: int) -> Any:
        import torch

        return torch.empty(tuple(shape), dtype=getattr(torch, _LONG[dtype]), device=f"cuda:{ordinal}")

    def fill(self, array: Any, value: float) -> None:
        array.fill_(value)

    def check(self, array: Any, want: Array, shape: tuple[int, ...], strides: tuple[int, ...], ordinal: int) -> None:
        """Raises :class:`UsageError` where ``array`` is not what the kernel was built for."""
        where = self.device(array)
        if where != ("cuda", ordinal):
            raise UsageError(f"the argument {want.name} is on {where[0]}:{where[1]}, and the kernel runs on cuda:{ordinal}",
                             hint="move the array to that device")
        if tuple(array.shape) != shape or self.dtype(array) != want.dtype:
            raise UsageError(f"the argument {want.name} is {self.dtype(array)}{list(array.shape)}, and the kernel was built "
                             f"for {want.dtype}{list(shape)}")
        if shape and 0 not in shape and self.pointer(array) % _align(want):
            raise UsageError(f"the argument {want.name} does not begin at a multiple of {_align(want)} bytes, which the "
                             "kernel was built for", hint="copy the array, or build the operator for this alignment")
        have = self.strides(array)
        if any(n > 1 and a != b for n, a, b in zip(shape, have, strides, strict=True)):
            raise UsageError(f"the argument {want.name} has strides {have}, and the kernel was built for {strides}",
                             hint="make it contiguous, or build the operator for these strides")


class CupyArrays(Arrays):
    def stream(self, ordinal: int) -> int:
        import cupy

        return cupy.cuda.get_current_stream().ptr

    def pointer(self, array: Any) -> int:
        return array.data.ptr

    def device(self, array: Any) -> tuple[str, int]:
        return "cuda", array.device.id

    def dtype(self, array: Any) -> str:
        return _SHORT.get(str(array.dtype), str(array.dtype))

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(n // array.itemsize for n in array.strides)

    def empty(self, shape: Sequence[int], dtype: str, ordinal: int) -> Any:
        import cupy

        from portakern.spec.inputs import numpy_dtype

        with cupy.cuda.Device(ordinal):
            return cupy.empty(tuple(shape), numpy_dtype(dtype))

    def fill(self, array: Any, value: float) -> None:
        array.fill(value)


class DlpackArrays(Arrays):
    """Any other library, through torch; results go back by the library's own ``from_dlpack``."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def view(self, given: Any) -> Any:
        import torch

        return torch.from_dlpack(given)

    def result(self, made: Any) -> Any:
        import torch

        torch.cuda.current_stream().synchronize()  # not every library takes over the order of a stream
        return self.library.from_dlpack(made)


_LONG = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16",
    "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_SHORT = {long: short for short, long in _LONG.items()}


def _align(array: Array) -> int:
    return array.type.align if isinstance(array.type, BufferType) else 1


def family_of(inputs: Sequence[Any]) -> Arrays:
    """The library that the arrays among ``inputs`` come from (torch where there is none).

    Raises :class:`UsageError` for arrays that no GPU can see.
    """
    for x in inputs:
        root = type(x).__module__.partition(".")[0]
        if root == "torch":
            return Arrays()
        if root == "cupy":
            return CupyArrays()
        if root == "numpy":
            continue
        if hasattr(x, "__dlpack__"):
            return DlpackArrays(_from_dlpack(x, root))
    arrays = [type(x) for x in inputs if getattr(x, "ndim", 0) > 0]
    if arrays:
        name = f"{arrays[0].__module__}.{arrays[0].__name__}"
        raise UsageError(f"an array of type {name} lies in host memory, and the kernel runs on a GPU",
                         hint="hand over torch or cupy arrays that lie on the GPU")
    return Arrays()


def _from_dlpack(x: Any, root: str) -> Any:
    """The module of the library of ``x`` that has ``from_dlpack``."""
    import importlib

    for name in ("jax.numpy",) if root in ("jax", "jaxlib") else (root,):
        module = importlib.import_module(name)
        if hasattr(module, "from_dlpack"):
            return module
    raise UsageError(f"arrays of {root} cannot be made from others (it has no from_dlpack)", hint="hand over torch arrays")
