"""Device arrays of other libraries: where they lie, what shape they have, and new ones of the same kind.

One family per library and device.  A device is named as torch names it: its type (``"cuda"`` for every GPU that torch's
``cuda`` module drives, whoever made it) and its number.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from portakern.dtypes import DTYPES, numpy_dtype
from portakern.errors import UsageError
from portakern.ir.program import Array
from portakern.ir.tile import BufferType

_LONG = {d.name: d.long_name for d in DTYPES.values() if d.bits >= 8}
_SHORT = {long: short for short, long in _LONG.items()}


class ArrayLibrary:
    """What is asked of a library of device arrays.

    ``direct``: arrays are taken and given as they are, so that a call on arrays like earlier ones needs no look at them.
    """

    direct = True

    def __init__(self, kind: str, ordinal: int) -> None:
        self.kind = kind
        self.ordinal = ordinal

    def view(self, given: Any) -> Any:
        """``given``, of whichever library, as an array of this family, without a copy."""
        raise NotImplementedError

    def result(self, made: Any) -> Any:
        """``made`` as an array of the caller's library."""
        return made

    def stream(self) -> int:
        """Native handle of the library's current stream on this device."""
        raise NotImplementedError

    def addresses(self, arrays: Sequence[Any]) -> list[int]:
        raise NotImplementedError

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        """A function that gives a new, unfilled, contiguous array."""
        raise NotImplementedError

    def device(self, array: Any) -> tuple[str, int]:
        raise NotImplementedError

    def dtype(self, array: Any) -> str:
        name = str(array.dtype).rpartition(".")[2]
        return _SHORT.get(name, name)

    def strides(self, array: Any) -> tuple[int, ...]:
        """In elements."""
        raise NotImplementedError

    def check(self, array: Any, want: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        """Raises :class:`UsageError` where ``array`` is not what the kernel was built for."""
        where = self.device(array)
        if where != (self.kind, self.ordinal):
            raise UsageError(f"the argument {want.name} is on {where[0]}:{where[1]}, and the kernel runs on "
                             f"{self.kind}:{self.ordinal}", hint="move the array to that device")
        if tuple(array.shape) != shape or self.dtype(array) != want.dtype:
            raise UsageError(f"the argument {want.name} is {self.dtype(array)}{list(array.shape)}, and the kernel was built "
                             f"for {want.dtype}{list(shape)}")
        (address,) = self.addresses([array])
        align = want.type.align if isinstance(want.type, BufferType) else 1
        if 0 not in shape and address % align:
            raise UsageError(f"the argument {want.name} does not begin at a multiple of {align} bytes, which the "
                             "kernel was built for", hint="copy the array, or build the operator for this alignment")
        have = self.strides(array)
        if 0 not in shape and any(n > 1 and a != b for n, a, b in zip(shape, have, strides, strict=True)):
            raise UsageError(f"the argument {want.name} has strides {have}, and the kernel was built for {strides}",
                             hint="make it contiguous, or build the operator for these strides")


class TorchArrays(ArrayLibrary):
    def __init__(self, kind: str, ordinal: int) -> None:
        super().__init__(kind, ordinal)
        import torch

        self.torch = torch
        module = getattr(torch, kind)
        # The binding beneath current_stream().cuda_stream, which makes no object: what torch's own generated code calls.
        raw = getattr(torch._C, f"_{kind}_getCurrentRawStream", None)
        self._stream = raw or (lambda n: module.current_stream(n).cuda_stream)

    def view(self, given: Any) -> Any:
        return given if isinstance(given, self.torch.Tensor) else self.torch.from_dlpack(given)

    def stream(self) -> int:
        return self._stream(self.ordinal)

    def addresses(self, arrays: Sequence[Any]) -> list[int]:
        return [x.data_ptr() for x in arrays]

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        empty = self.torch.empty
        element, device = getattr(self.torch, _LONG[dtype]), self.torch.device(self.kind, self.ordinal)
        return lambda: empty(shape, dtype=element, device=device)

    def device(self, array: Any) -> tuple[str, int]:
        return array.device.type, array.device.index or 0

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(array.stride())


class CupyArrays(ArrayLibrary):
    def __init__(self, kind: str, ordinal: int) -> None:
        super().__init__(kind, ordinal)
        import cupy

        self.cupy = cupy
        self.here = cupy.cuda.Device(ordinal)

    def view(self, given: Any) -> Any:
        return given if isinstance(given, self.cupy.ndarray) else self.cupy.from_dlpack(given)

    def stream(self) -> int:
        with self.here:
            return self.cupy.cuda.get_current_stream().ptr

    def addresses(self, arrays: Sequence[Any]) -> list[int]:
        return [x.data.ptr for x in arrays]

    def maker(self, shape: tuple[int, ...], dtype: str) -> Callable[[], Any]:
        element, make, here = numpy_dtype(dtype), self.cupy.empty, self.here

        def made() -> Any:
            with here:
                return make(shape, element)

        return made

    def device(self, array: Any) -> tuple[str, int]:
        return self.kind, array.device.id

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(n // array.itemsize for n in array.strides)


class DlpackArrays(TorchArrays):
    """Any other library, through torch; results go back by the library's own ``from_dlpack``."""

    direct = False

    def __init__(self, kind: str, ordinal: int, library: str) -> None:
        super().__init__(kind, ordinal)
        self.library = _with_from_dlpack(library)

    def result(self, made: Any) -> Any:
        # Not every library takes over the order of a stream.
        getattr(self.torch, self.kind).current_stream(self.ordinal).synchronize()
        return self.library.from_dlpack(made)


def _with_from_dlpack(root: str) -> Any:
    """The module of the library ``root`` that has ``from_dlpack``."""
    module = importlib.import_module({"jax": "jax.numpy", "jaxlib": "jax.numpy"}.get(root, root))
    if not hasattr(module, "from_dlpack"):
        raise UsageError(f"arrays of {root} cannot be made from others (it has no from_dlpack)", hint="hand over torch arrays")
    return module


@lru_cache(maxsize=64)
def _family(library: str, kind: str, ordinal: int) -> ArrayLibrary:
    known: dict[str, Callable[[str, int], ArrayLibrary]] = {"torch": TorchArrays, "cupy": CupyArrays}
    return known[library](kind, ordinal) if library in known else DlpackArrays(kind, ordinal, library)


def family_of(inputs: Sequence[Any], kind: str, ordinal: int) -> ArrayLibrary:
    """The library that the arrays among ``inputs`` come from (torch where there is none).

    Raises:
        UsageError: for arrays that no device can see.
    """
    for x in inputs:
        root = type(x).__module__.partition(".")[0]
        if root in ("torch", "cupy") or (root != "numpy" and hasattr(x, "__dlpack__")):
            return _family(root, kind, ordinal)
    arrays = [type(x) for x in inputs if getattr(x, "ndim", 0) > 0]
    if arrays:
        name = f"{arrays[0].__module__}.{arrays[0].__name__}"
        raise UsageError(f"an array of type {name} lies in host memory, and the kernel runs on {kind}:{ordinal}",
                         hint="hand over torch or cupy arrays that lie on the device")
    return _family("torch", kind, ordinal)
