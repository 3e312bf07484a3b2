"""What can be told of an array of any library without touching its data: shape, dtype, strides, address."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from typing import Any

from portakern.dtypes import DTYPES
from portakern.errors import PortakernError, UsageError
from portakern.ir.program import ArrayFacts
from portakern.native import core

ALIGNMENT = 16
"""Bytes that kernels assume to divide the address of an array unless they are built for another."""

_DTYPES = {d.long_name: d.name for d in DTYPES.values()}


def shape_of(x: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in x.shape) if hasattr(x, "shape") else ()


def dtype_of(x: Any) -> str:
    """Our name of the dtype of an array of any library; its own name where we have none."""
    name = str(getattr(x.dtype, "name", x.dtype)).rpartition(".")[2]
    return _DTYPES.get(name, name)


def facts_of(x: Any) -> ArrayFacts | None:
    """Strides in elements (``None`` where contiguous) and alignment of an array's address; ``None`` for a number."""
    shape = shape_of(x)
    if not hasattr(x, "dtype") or not shape or 0 in shape:
        return None
    strides, address = layout_of(x)
    contiguous = strides is None or all(n == 1 or have == want
                                        for n, have, want in zip(shape, strides, row_major(shape), strict=True))
    align = ALIGNMENT if not address else min(ALIGNMENT, address & -address)
    return ArrayFacts(None if contiguous else strides, align)


def layout_of(x: Any) -> tuple[tuple[int, ...] | None, int]:
    """(strides in elements or ``None`` for contiguous, address or 0 where the library does not tell)."""
    if _like_torch(x):
        strides, address = tuple(x.stride()), _torch_address(x)
        if not address and 0 not in shape_of(x):
            raise _without_memory(x, "it lies on the meta device or is a fake tensor")
        if x.is_neg():
            raise UsageError("the tensor is the negative of its memory", hint="pass tensor.resolve_neg()")
        return strides, address
    for protocol in ("__cuda_array_interface__", "__array_interface__"):
        told = getattr(x, protocol, None)
        if isinstance(told, dict):
            width = int(told["typestr"][2:])
            strides = told.get("strides")
            return None if strides is None else tuple(s // width for s in strides), int(told["data"][0])
    if hasattr(x, "strides") and hasattr(x, "itemsize"):
        return tuple(s // x.itemsize for s in x.strides), 0
    return None, 0


def numpy_address(x: Any) -> int:
    """The address of a numpy array's first element."""
    return numpy_reader()(x)


@cache
def numpy_reader() -> Callable[[Any], int]:
    """What tells :func:`numpy_address`: the native core where it is built, in a tenth of the time."""
    try:
        return core().array_address
    except PortakernError:
        return lambda x: x.__array_interface__["data"][0]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous array, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def extent_of(x: Any) -> tuple[int, int]:
    """(first byte, byte after the last one) that an array covers; (0, 0) where that cannot be told or it is empty."""
    shape = shape_of(x)
    strides, address = layout_of(x)
    if not address or 0 in shape:
        return 0, 0
    width = int(x.dtype.itemsize)
    reach = [(n - 1) * s * width for n, s in zip(shape, strides or row_major(shape), strict=True)]
    return address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + width


# ---- signatures: what a call may depend on besides the numbers in its arrays ---------------------------------------------


def signature(x: Any) -> Hashable:
    """Two inputs with equal signatures are alike in library, device, dtype, shape, strides and alignment, so that what was
    checked for one holds for the other.  ``None`` where that cannot be told cheaply: such inputs are checked each time.
    """
    kind = type(x)
    reader = _READERS.get(kind)
    if reader is None:
        reader = _READERS[kind] = _reader(x)
    return reader(x)


def _reader(x: Any) -> Callable[[Any], Hashable]:
    if isinstance(x, int | float) and not hasattr(x, "dtype"):
        return type
    if _like_torch(x):
        return _torch_signature
    if hasattr(x, "__array_struct__") and hasattr(x, "ctypes"):
        return partial(_numpy_signature, numpy_reader())
    if hasattr(getattr(x, "data", None), "ptr") and hasattr(x, "device"):
        return _cupy_signature
    return _unknown


_READERS: dict[type, Callable[[Any], Hashable]] = {}


def _torch_signature(x: Any) -> Hashable:
    return (type(x), x.dtype, x.shape, x.stride(), x.device, _torch_address(x) % ALIGNMENT, x.is_neg(), x.requires_grad)


def _numpy_signature(address: Callable[[Any], int], x: Any) -> Hashable:
    return (type(x), x.dtype, x.shape, x.strides, address(x) % ALIGNMENT)


def _cupy_signature(x: Any) -> Hashable:
    return (type(x), x.dtype, x.shape, x.strides, x.data.device_id, x.data.ptr % ALIGNMENT)


def _unknown(x: Any) -> None:
    return None


def _like_torch(x: Any) -> bool:
    return hasattr(x, "data_ptr") and callable(getattr(x, "stride", None))


def _torch_address(x: Any) -> int:
    """Raises :class:`UsageError` for tensors without memory, as tracing has them."""
    try:
        return x.data_ptr()
    except RuntimeError as error:
        raise _without_memory(x, str(error).splitlines()[0]) from None


def _without_memory(x: Any, why: str) -> UsageError:
    return UsageError(f"this {type(x).__name__} has no memory that a kernel could read: {why}",
                      hint="under torch.compile, torch.func and in fake tensor mode call built.as_torch_op()")
