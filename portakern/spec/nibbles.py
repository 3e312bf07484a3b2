"""Integers of four bits, two to a byte.

There is one convention: of two neighbours along the last dim the first is in the lower four bits, as ONNX, XLA and PyTorch's
``float4_e2m1fn_x2`` have it; an odd number of them leaves the upper four bits of the last byte 0.  Arrays of ``pk.i4`` and
``pk.u4`` are arrays of such bytes, [.., ceil(K / 2)], wherever they are held; in math their elements are i8 and u8.
"""

from __future__ import annotations

from typing import Any

from portakern.dtype_names import dtype_name
from portakern.dtypes import DTYPES
from portakern.errors import UsageError
from portakern.ir.size import Size, ceildiv, divides
from portakern.ir.tensor import TensorType
from portakern.spec import elementwise as ew
from portakern.spec import pieces, views
from portakern.spec.location import located, spec_error
from portakern.spec.traced import Traced


def bytes_of(size: Size) -> Size:
    """How many bytes a row of ``size`` such integers takes."""
    return size // 2 if divides(2, size) else ceildiv(size, 2)


def in_memory(shape: tuple[Size, ...], dtype: str) -> TensorType:
    """What an array of ``dtype`` is in memory.  Raises :class:`SpecError` for a single integer of four bits."""
    if DTYPES[dtype].bits >= 8:
        return TensorType(shape, dtype)
    if not shape:
        raise spec_error(f"a single {dtype}", "integers of four bits lie in rows of bytes: take pk.i8, or a row")
    return TensorType((*shape[:-1], bytes_of(shape[-1])), "u8")


def unpack(x: Any, dtype: Any, size: Size | None = None) -> Any:
    """The integers of four bits in each row of the bytes ``x``: twice as many, or the first ``size``; i8 of pk.i4, u8 of pk.u4.

    In an operator, and of arrays of numpy and PyTorch.  Raises :class:`UsageError` for a ``dtype`` that has not four bits, and
    :class:`SpecError` where ``x`` is no array of u8.
    """
    name = _four_bits(dtype)
    return _unpacked(x, name, size) if isinstance(x, Traced) else _unpack_array(x, name, size)


def pack(x: Any, dtype: Any) -> Any:
    """The lowest four bits of the integers ``x``, two to a byte along the last dim: :func:`unpack` the other way.  Raises as it
    does."""
    name = _four_bits(dtype)
    return _packed(x, name) if isinstance(x, Traced) else _pack_array(x)


def _four_bits(dtype: Any) -> str:
    name = dtype_name(dtype)
    if DTYPES[name].bits != 4:
        raise UsageError(f"{name} has not four bits", hint="pk.i4 and pk.u4 have")
    return name


@located
def _unpacked(x: Traced, dtype: str, size: Size | None) -> Traced:
    if x.type.dtype != "u8" or not x.shape:
        raise spec_error(f"unpack of {x.type}", "integers of four bits lie in rows of bytes: give an array of u8")
    size = 2 * x.shape[-1] if size is None else size
    if bytes_of(size) != x.shape[-1]:
        raise spec_error(f"{size} integers of four bits in rows of {x.shape[-1]} bytes", f"they take {bytes_of(size)}")
    number = views.arange(size)
    byte = ew.cast(views.take(x, ew.shift_right(number, 1), axis=-1), "i32")
    place = ew.shift_left(ew.logical_and(number, 1), 2)  # 0 or 4
    return ew.cast(ew.shift_right(byte, place), dtype)


@located
def _packed(x: Traced, dtype: str) -> Traced:
    if not DTYPES[x.type.dtype].is_int or not x.shape:
        raise spec_error(f"pack of {x.type}", f"cast it first: pk.pack(pk.cast(x, pk.{dtype}), pk.{dtype})")
    even = x if divides(2, x.shape[-1]) else pieces.pad(x, [*((0, 0) for _ in x.shape[:-1]), (0, 1)])
    low, high = (ew.logical_and(ew.cast(part, "i32"), 15) for part in (x[..., ::2], even[..., 1::2]))
    return ew.cast(ew.logical_or(low, ew.shift_left(high, 4)), "u8")


# ---- arrays --------------------------------------------------------------------------------------------------------------


def _unpack_array(x: Any, dtype: str, size: Size | None) -> Any:
    import numpy as np

    if hasattr(x, "new_empty"):  # torch
        return _torch_unpacked(x, dtype, size)
    x = np.asarray(x, np.uint8)
    made = np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])[..., :size]
    return made if dtype == "u4" else ((made ^ 8).astype(np.int8) - 8).astype(np.int8)


def _torch_unpacked(x: Any, dtype: str, size: Size | None) -> Any:
    import torch

    made = torch.stack([x & 15, x >> 4], -1).flatten(-2)[..., :size]
    return made if dtype == "u4" else (made ^ 8).to(torch.int8) - 8


def _pack_array(x: Any) -> Any:
    import numpy as np

    if hasattr(x, "new_empty"):
        import torch

        x = torch.nn.functional.pad(x.to(torch.int8), (0, x.shape[-1] % 2)).view(torch.uint8)
        return x[..., ::2] & 15 | (x[..., 1::2] & 15) << 4
    x = np.asarray(x).astype(np.int8).view(np.uint8)  # integers of ml_dtypes too
    x = np.concatenate([x, np.zeros((*x.shape[:-1], x.shape[-1] % 2), np.uint8)], -1)
    return x[..., ::2] & 15 | (x[..., 1::2] & 15) << 4
