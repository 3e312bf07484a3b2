"""Dtypes of the IR as jax knows them."""

from __future__ import annotations

from typing import Any

from portakern.errors import UsageError

_NAMES = {
    "f32": "float32", "bf16": "bfloat16", "i32": "int32", "i16": "int16", "i8": "int8", "u32": "uint32",
    "u16": "uint16", "u8": "uint8", "bool": "bool_", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f16": "float16", "f64": "float64", "i64": "int64", "u64": "uint64",
}  # fmt: skip


def jax_dtype(name: str) -> Any:
    """The jax scalar type of an IR dtype."""
    import jax.numpy as jnp

    return getattr(jnp, _NAMES[name])


def ir_dtype(dtype: Any) -> str:
    """The IR's name of a numpy or jax dtype.  Raises :class:`UsageError` for one that it has none for."""
    import numpy as np

    name = np.dtype(dtype).name
    for ours, theirs in _NAMES.items():
        if name in (theirs, theirs.rstrip("_")):
            return ours
    raise UsageError(f"arrays of {name} are none that portakern knows", hint=f"it knows {', '.join(_NAMES)}")
