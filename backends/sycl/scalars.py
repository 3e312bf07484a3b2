"""Run-time scalars as the kernels of this backend take them."""

from __future__ import annotations

from typing import Any

from portakern import native
from portakern.ir.program import Array

_WIDENED = {"f16": "f32", "bf16": "f32", "bool": "i32", "i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}
"""What a scalar of a narrow dtype is widened to as a kernel's parameter."""


def scalar_argument(array: Array, value: Any) -> native.PackedArgument:
    number = value.item() if hasattr(value, "item") else value
    if array.dtype in ("f16", "bf16"):  # rounded first: the parameter holds what the dtype can
        import numpy as np

        from portakern.dtypes import numpy_dtype

        number = float(np.asarray(value).astype(numpy_dtype(array.dtype)).astype(np.float32)[()])
    return native.scalar(_WIDENED.get(array.dtype, array.dtype), number)
